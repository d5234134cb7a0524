"""FedAvg: local steps at the clients, a weighted mean at the server.

McMahan, Moore, Ramage, Hampson, Aguera y Arcas, "Communication-Efficient Learning of Deep
Networks from Decentralized Data", AISTATS 2017, https://arxiv.org/abs/1602.05629, Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Gt

from rayfed.algorithms.base import Algorithm, Round
from rayfed.core.arrays import Array
from rayfed.core.needs import AVERAGED, GLOBAL_STEPS, SOLVER, Terms
from rayfed.messages import Ask, State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class FedAvg(Algorithm):
    """Federated averaging, with a server learning rate (McMahan et al. 2017).

    Each participant i starts from the broadcast model x (p,), takes its local steps and uploads
    the pseudo-gradient Delta_i = x - x_i; the server moves to x - server_lr * mean_i Delta_i.

    Parameters
    ----------
    server_lr : float
        Server step eta_g; 1 is the paper's plain average of models.

    Notes
    -----
    Deviations from the paper: the server learning rate, 1 in the paper.

    Examples
    --------
    Two clients (K, p) = (2, 1) that moved from 4 to 1 and to 3 are averaged to 2:

    >>> import numpy as np
    >>> from rayfed.messages import Reply
    >>> round = FedAvg().round({"x": np.array([4.0])})
    >>> ask = next(round)
    >>> delta = np.mean([[4.0 - 1.0], [4.0 - 3.0]], axis=0)
    >>> one = np.ones(2)
    >>> try:
    ...     round.send(Reply(np.arange(2), one, {"delta": delta}, {}, np.ones(2, int)))
    ... except StopIteration as end:
    ...     print(end.value[0]["x"])
    [2.]
    """

    name: ClassVar[str] = "fedavg"
    needs: ClassVar[Terms] = frozenset({SOLVER})
    gives: ClassVar[Terms] = Algorithm.gives | {GLOBAL_STEPS, AVERAGED}

    server_lr: Annotated[float, Gt(0)] = 1.0

    def train(self, clients: Clients, x: Array) -> Upload:
        """Client function: local steps from x (p,); upload Delta (K, p)."""
        local = clients.solve(x)
        return Upload({"delta": x - local.x}, loss=local.loss)

    @property
    def gradients_a_step(self) -> float:
        """Gradients that a local step takes, for which it is charged."""
        return 1.0

    def round(self, state: State) -> Round:
        """Server function: x <- x - server_lr * mean_i Delta_i."""
        x = state["x"]
        each = self.gradients_a_step
        reply = yield Ask("train", send={"x": x}, up={"delta": x.size}, each_step=each)
        return {"x": x - self.server_lr * reply.mean["delta"]}, {}
