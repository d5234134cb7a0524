"""FedAvgM: FedAvg with server momentum.

Hsu, Qi, Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
Classification", 2019, https://arxiv.org/abs/1909.06335, section 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Interval

from rayfed.algorithms.base import Round
from rayfed.algorithms.fedavg import FedAvg
from rayfed.core.arrays import Array
from rayfed.core.needs import AVERAGED, Terms
from rayfed.messages import Ask, State


@dataclass(frozen=True, kw_only=True)
class FedAvgM(FedAvg):
    """FedAvg with momentum at the server (Hsu et al. 2019).

    Client function as FedAvg's. The server keeps m (p,), zero at first, and steps
    m <- server_momentum m + mean_i Delta_i, x <- x - server_lr m.

    Parameters
    ----------
    server_momentum : float
        Share of the last direction that is kept.

    Notes
    -----
    Without momentum it is FedAvg.

    Deviations from the paper: the server learning rate, 1 in the paper.

    Examples
    --------
    The mean pseudo-gradient is 1 twice: the second step is longer by half.

    >>> from rayfed.messages import Reply
    >>> algorithm = FedAvgM(server_momentum=0.5)
    >>> state = algorithm.init(np.array([4.0]))
    >>> for _ in range(2):
    ...     round = algorithm.round(state)
    ...     ask, mean = next(round), {"delta": np.array([1.0])}
    ...     try:
    ...         round.send(Reply(np.arange(2), np.ones(2), mean, {}, np.ones(2, int)))
    ...     except StopIteration as end:
    ...         state = end.value[0]
    >>> state["x"]
    array([1.5])
    """

    name: ClassVar[str] = "fedavgm"
    gives: ClassVar[Terms] = FedAvg.gives - {AVERAGED}

    server_momentum: Annotated[float, Interval(ge=0, lt=1)] = 0.9

    def init(self, x0: Array) -> State:
        """Return the model and the direction of the server (p,)."""
        return {"x": x0, "m": np.zeros_like(x0)}

    def round(self, state: State) -> Round:
        """Server function: m <- server_momentum m + mean_i Delta_i; x <- x - server_lr m."""
        x = state["x"]
        reply = yield Ask("train", send={"x": x}, up={"delta": x.size})
        m = self.server_momentum * state["m"] + reply.mean["delta"]
        return {"x": x - self.server_lr * m, "m": m}, {}
