"""Gradient descent: one step along the full gradient of F in every round.

It is the "FedAvg" that FedHybrid is compared with: Niu, Wei, "FedHybrid: A Hybrid Federated
Optimization Method for Heterogeneous Clients", 2021, https://arxiv.org/abs/2106.01279, section 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Gt

from rayfed.algorithms.base import Coded, Round
from rayfed.algorithms.columns import GRADIENT_NORM
from rayfed.algorithms.full_gradient import SHARE, FullGradient, total
from rayfed.core.columns import Column
from rayfed.messages import Ask, State


@dataclass(frozen=True, kw_only=True)
class GradientDescent(FullGradient):
    """Gradient descent on the global objective: x <- x - lr grad F(x), one exchange a round.

    Every participant uploads its term of grad F(x) (p,). F is set by ``problem.weighting``, a
    sum over clients under ``sum``, so the step that fits depends on it.

    Parameters
    ----------
    lr : float
        Step along grad F.

    Notes
    -----
    Where only some take part, grad F is estimated from them: sum_i w_i grad F_i / sum_i w_i, and
    under ``weighting: sum`` N times their mean. Clients that are drawn in proportion to
    their size have the weight w_i / n_i instead, so that size does not count twice.

    Deviations from the paper: none where everyone takes part, as the paper assumes.

    Examples
    --------
    Two clients whose gradients add up to 6, in F = F_1 + F_2, so that each is half of F:

    >>> from rayfed.messages import Reply
    >>> round = GradientDescent(lr=0.5).round({"x": np.array([4.0])})
    >>> ask = next(round)
    >>> mean = {"gradient": np.array([3.0]), "share": np.float64(0.5)}
    >>> try:
    ...     round.send(Reply(np.arange(2), np.ones(2), mean, {}, np.ones(2, int)))
    ... except StopIteration as end:
    ...     print(end.value[0]["x"])
    [1.]
    """

    name: ClassVar[str] = "gradient-descent"
    coded: ClassVar[Coded] = {"gradient": "any"}
    diagnostics: ClassVar[tuple[Column, ...]] = (GRADIENT_NORM,)

    lr: Annotated[float, Gt(0)] = 0.1

    def round(self, state: State) -> Round:
        """Server function: add up the gradients, and step."""
        x = state["x"]
        up = {"gradient": x.size, SHARE: 1}
        reply = yield Ask("slope", send={"x": x}, up=up, cost=0, passes=1)
        g = total(reply, "gradient")
        return {"x": x - self.lr * g}, {"gradient_norm": float(np.linalg.norm(g))}
