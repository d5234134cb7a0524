"""GIANT: the mean of the clients' own Newton directions for the global gradient.

Wang, Roosta-Khorasani, Xu, Mahoney, "GIANT: Globally Improved Approximate Newton Method for
Distributed Optimization", NeurIPS 2018, https://arxiv.org/abs/1709.03528, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Gt

from rayfed.algorithms.base import Coded, Round
from rayfed.algorithms.columns import COMMUNICATIONS, GRADIENT_NORM, SERVER_LR
from rayfed.algorithms.full_gradient import SHARE, FullGradient, terms, total
from rayfed.core.arrays import Array
from rayfed.core.columns import Column
from rayfed.core.errors import RayfedError
from rayfed.core.needs import EXACT_DOWNLOADS, HESSIANS, MODEL, Terms
from rayfed.messages import Ask, Reply, State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients

_SUFFICIENT = 0.1  # of the decrease that the gradient promises (Armijo)


@dataclass(frozen=True, kw_only=True)
class GIANT(FullGradient):
    """Averaged local Newton directions (Wang et al. 2018): two exchanges a round, or three.

    The first adds up g = grad F(x). In the second every participant solves (H_i + ridge I) v_i = g
    with its own estimate H_i (p, p) of the Hessian of F and uploads v_i (p,); the server steps
    x <- x - step mean_i v_i.

    Parameters
    ----------
    step : float
        Factor on the mean direction; the largest one that is tried by a line search.
    line_search : bool
        Whether a third exchange evaluates F after steps of step, step / 4, ..., step / 4^9: the
        first that decreases F by a tenth of what the gradient promises is taken. If none does, the
        model stays where it is, and ``server_lr`` is 0.
    ridge : float
        Added to the diagonal of every H_i; positive where a client has fewer rows than columns.

    Notes
    -----
    It is for clients with similar data, where H_i stands for the Hessian of all; without a line
    search it may diverge where it does not.

    A line search compares values of F, so that it ends where they differ by rounding alone: x is
    then within about sqrt(2^-52 F / curvature) of the minimum, and which last step is taken depends
    on the processor. Without one x goes on to the rounding of x itself.

    ``communications`` counts the exchanges, as in ``disco``.

    In time a direction is charged as p / 4 passes over the rows, as a Hessian is in ``disco``, and
    the line search as 5 passes: a value takes half of what a gradient does.

    Where only some take part, g is estimated from them as in ``gradient-descent``.

    Deviations from the paper: clients solve their systems exactly and not by conjugate
    gradients; v_i are averaged with the weights of the participants, which in the paper have
    equally many rows; ridge.

    Examples
    --------
    >>> round = GIANT().round({"x": np.array([4.0])})
    >>> next(round).function
    'slope'
    """

    name: ClassVar[str] = "giant"
    coded: ClassVar[Coded] = {"gradient": "any", "direction": "any"}
    needs: ClassVar[Terms] = FullGradient.needs | {EXACT_DOWNLOADS, HESSIANS}
    gives: ClassVar[Terms] = frozenset({MODEL})
    diagnostics: ClassVar[tuple[Column, ...]] = (GRADIENT_NORM, SERVER_LR, COMMUNICATIONS)
    curved: ClassVar[bool] = True

    step: Annotated[float, Gt(0)] = 1.0
    line_search: bool = True
    ridge: Annotated[float, Ge(0)] = 0.0

    def direction(self, clients: Clients, g: Array) -> Upload:
        """Client function: (H_i + ridge I)^-1 g for g (p,); upload (K, p)."""
        weighted = terms(clients, hessian=clients.hessian(clients.state["x"]))
        H = weighted["hessian"] / weighted[SHARE].astype(g.dtype)[:, None, None]
        H += g.dtype.type(self.ridge) * np.eye(g.size, dtype=g.dtype)
        right = np.broadcast_to(g[:, None], (len(H), g.size, 1))
        try:
            return Upload({"direction": np.linalg.solve(H, right)[:, :, 0]})
        except np.linalg.LinAlgError:
            raise RayfedError("its Hessian is singular; give giant a ridge above 0") from None

    def values(self, clients: Clients, v: Array) -> Upload:
        """Client function: F_i at x - t v, v (p,), t = 0 and every trial step; upload (K, 11)."""
        x, trials = clients.state["x"], (v.dtype.type(t) for t in (0.0, *self._trials))
        return Upload(
            terms(clients, values=np.stack([clients.value(x - t * v) for t in trials], 1))
        )

    @property
    def _trials(self) -> list[float]:
        return [self.step / 4**j for j in range(10)]

    def round(self, state: State) -> Round:
        """Server function: Algorithm 1."""
        x = state["x"]
        up = {"gradient": x.size, SHARE: 1}
        reply = yield Ask("slope", send={"x": x}, up=up, cost=0, passes=1)
        g = total(reply, "gradient")
        up, passes = {"direction": x.size}, max(1, x.size / 4)
        reply = yield Ask("direction", send={"g": g}, up=up, cost=0, passes=passes)
        v = reply.mean["direction"]
        step = self.step
        if self.line_search:
            step = yield from self._search(v, float(g @ v))
        return {"x": x - step * v}, {
            "gradient_norm": float(np.linalg.norm(g)),
            "server_lr": step,
            "communications": 3.0 if self.line_search else 2.0,
        }

    def _search(self, v: Array, slope: float) -> Generator[Ask, Reply, float]:
        """Return the first trial step along v (p,) with enough decrease, or 0."""
        up = {"values": 1 + len(self._trials), SHARE: 1}
        reply = yield Ask("values", send={"v": v}, up=up, cost=0, passes=5)
        now, *after = total(reply, "values").tolist()
        for t, value in zip(self._trials, after, strict=True):
            if value <= now - _SUFFICIENT * t * slope:
                return t
        return 0.0
