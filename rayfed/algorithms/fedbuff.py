"""FedBuff: asynchronous training with a buffer of replies.

Nguyen, Malik, Zhan, Yousefpour, Rabbat, Malek, Huba, "Federated Learning with Buffered Asynchronous
Aggregation", AISTATS 2022, https://arxiv.org/abs/2106.06639, Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Ge, Gt

from rayfed.algorithms.asynchronous import Discounted
from rayfed.core.arrays import Array
from rayfed.core.needs import GLOBAL_STEPS, MEAN, Terms
from rayfed.messages import Ask, Diagnostics, Reply, State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class FedBuff(Discounted):
    """Federated learning with buffered asynchronous aggregation (Nguyen et al. 2022).

    Client i starts from the newest model x_v (p,), takes its local steps and uploads
    Delta_i = x_v - x_i. When `buffer` replies B have arrived the server steps
    x <- x - server_lr (1/buffer) sum_B s(staleness_i) Delta_i, s = (1 + staleness)^-1/2.

    Parameters
    ----------
    buffer : int
        Replies to an update.
    server_lr : float
        Server step eta_g.

    Notes
    -----
    Deviations from the paper: with ``weights: size`` the mean over the buffer is weighted by the
    clients' rows. The server sees the sum of a buffer, no single reply.

    Examples
    --------
    >>> import numpy as np
    >>> from rayfed.testing import answer, reply
    >>> answer(FedBuff(), {"x": np.array([4.0])}, reply({"delta": [3.0]})).state["x"]
    array([1.])
    """

    name: ClassVar[str] = "fedbuff"
    needs: ClassVar[Terms] = Discounted.needs - {MEAN}
    gives: ClassVar[Terms] = Discounted.gives | {GLOBAL_STEPS}

    buffer: Annotated[int, Ge(1)] = 10
    server_lr: Annotated[float, Gt(0)] = 1.0

    @property
    def takes(self) -> int:
        """The size of the buffer."""
        return self.buffer

    def ask(self, state: State) -> Ask:
        """Send x (p,); get Delta_i (p,)."""
        return Ask("train", send={"x": state["x"]}, up={"delta": state["x"].size})

    def train(self, clients: Clients, x: Array) -> Upload:
        """Client function: local steps from x, (p,) or (K, p); upload Delta (K, p)."""
        local = clients.solve(x)
        return Upload({"delta": x - local.x}, loss=local.loss)

    def arrival(self, state: State, reply: Reply) -> tuple[State, Diagnostics]:
        """Server function: x <- x - server_lr * mean_i s(staleness_i) Delta_i."""
        return {"x": state["x"] - self.server_lr * reply.mean["delta"]}, {}
