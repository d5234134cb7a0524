"""FedExP: a server step that adapts to how much the clients agree.

Jhunjhunwala, Wang, Joshi, "FedExP: Speeding Up Federated Averaging via Extrapolation",
ICLR 2023, https://arxiv.org/abs/2301.09604, Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from rayfed.algorithms.base import Algorithm, Array, Ask, Round, State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class FedExP(Algorithm):
    """FedAvg with an extrapolating server step (Jhunjhunwala et al. 2023).

    Client half as FedAvg's, with one more number up: ||Delta_i||^2. The server steps
    x <- x - eta_g mean_i Delta_i with
    eta_g = max(1, mean_i ||Delta_i||^2 / (2 (||mean_i Delta_i||^2 + epsilon))),
    norms over the whole flat model (p,). It is recorded as ``server_lr``.

    Parameters
    ----------
    epsilon : float
        Added to the squared norm of the mean; a large one gives FedAvg.
    max_one : bool
        Whether eta_g is at least 1. The authors' synthetic study runs without, and epsilon 0.

    Notes
    -----
    Set ``evaluate_last: 2``: the paper reports the mean of the last two iterates; training goes
    on from the last one. Deviations from the paper: none. (The authors' code multiplies epsilon
    by the number of participants, weights by size and decays epsilon.)

    Examples
    --------
    Two clients (K, p) = (2, 2) that moved at right angles: mean ||Delta_i||^2 = 4,
    ||mean Delta||^2 = 2, hence eta_g = 4 / (2 * 2) = 1.

    >>> from rayfed.algorithms.base import Reply
    >>> round = FedExP(epsilon=0.0, max_one=False).round({"x": np.zeros(2)})
    >>> ask = next(round)
    >>> mean = {"delta": np.array([1.0, 1.0]), "norm2": np.float64(4.0)}
    >>> try:
    ...     round.send(Reply(np.arange(2), np.ones(2), mean, {}, np.ones(2, int)))
    ... except StopIteration as end:
    ...     print(end.value[1]["server_lr"])
    1.0
    """

    name: ClassVar[str] = "fedexp"
    diagnostics: ClassVar[tuple[str, ...]] = ("server_lr",)

    epsilon: Annotated[float, Ge(0)] = 1e-3
    max_one: bool = True

    def train(self, clients: Clients, x: Array) -> Upload:
        """Client half: local steps from x (p,); upload Delta (K, p) and its squared norm (K,)."""
        local = clients.solve(x)
        delta = x - local.x
        return Upload({"delta": delta, "norm2": np.sum(delta * delta, axis=1)}, loss=local.loss)

    def round(self, state: State) -> Round:
        """Server half: extrapolate along the mean pseudo-gradient."""
        x = state["x"]
        reply = yield Ask("train", send={"x": x}, up={"delta": x.size, "norm2": 1})
        mean = reply.mean["delta"]
        square = float(np.sum(mean * mean))
        denominator = 2 * (square + self.epsilon)
        # Nobody moved: every step gives the same model
        eta_g = float(reply.mean["norm2"]) / denominator if denominator else 1.0
        if self.max_one:
            eta_g = max(1.0, eta_g)
        return {"x": x - eta_g * mean}, {"server_lr": eta_g}
