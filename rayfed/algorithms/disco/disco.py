"""DiSCO: damped Newton steps, each solved by distributed conjugate gradients.

Zhang, Xiao, "DiSCO: Distributed Optimization for Self-Concordant Empirical Loss", ICML 2015,
https://arxiv.org/abs/1501.00263, Algorithms 1 to 3.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt

from rayfed.algorithms.base import Coded, Round
from rayfed.algorithms.columns import (
    CG_RESIDUAL,
    CG_TOLERANCE,
    COMMUNICATIONS,
    GRADIENT_NORM,
    unsolved,
)
from rayfed.algorithms.disco.preconditioner import Preconditioner
from rayfed.algorithms.full_gradient import SHARE, FullGradient, terms, total
from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.columns import Column
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import EXACT_DOWNLOADS, HESSIANS, MODEL, PRODUCTS, VECTORS, Terms
from rayfed.messages import Ask, Reply, State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients
    from rayfed.datasets.shards import Shards
    from rayfed.population import Population
    from rayfed.problems.objective import Objective

_SHARE_OF_ROOT = 0.05  # the paper's 1 / 20


@dataclass(frozen=True)
class Direction:
    """An inexact Newton direction and its cost.

    Parameters
    ----------
    v : (p,) array
        About H^-1 g.
    decrement : float
        delta = sqrt(v'Hv).
    exchanges : int
        Products with H that clients were asked for.
    residual : float
        ||H v - g|| / ||g||, as the recursion has it.
    """

    v: Array
    decrement: float
    exchanges: int
    residual: float


@dataclass(frozen=True, kw_only=True)
class DiSCO(FullGradient):
    """Inexact damped Newton steps on F (Zhang and Xiao 2015).

    A round is one outer step. It takes an exchange for g = grad F(x), and one for each step of
    preconditioned conjugate gradients on H v = g, until ||H v - g|| <= tolerance ||g||. Then
    x <- x - step v / (1 + delta), delta = sqrt(v'Hv). Clients upload products H_i u (p,), never
    their Hessians; but for P = H_j + ridge I one of them, j, uploads its own once a round (p x p).

    Parameters
    ----------
    damped : bool
        Whether the step is divided by 1 + delta, as the paper's analysis wants.
    step : float
        Factor on the step. FedHybrid's authors run 0.5 without damping.
    tolerance : float, optional
        Residual of conjugate gradients at which they stop, relative to ||g||. If None: the
        paper's sqrt(m / L) / 20, with m and L the least and the largest eigenvalue of any
        participant's Hessian. Every client then forms its Hessian once a round, and uploads two
        numbers; a tolerance spares it that.
    ridge : float
        mu_p, added to the Hessian in P: larger where client j is less like the others.
    preconditioner : "first", "none" or int
        Whose Hessian P is: that of the participant with the lowest id, none (P = I), or that
        of a client, in whose absence it is the first's.
    max_steps : int, optional
        Most steps of conjugate gradients in a round; as many as the model has numbers if None.

    Notes
    -----
    ``communications`` counts the exchanges with all participants: one for g and one for each step
    of conjugate gradients. The Hessian of client j comes on top; its bytes and its time are
    charged, and the server sees it, so no secure aggregation covers it.

    In time a Hessian is charged as p / 4 passes over the rows (n p^2 multiplications for
    triangle and diagonal, where a gradient takes 4 n p), at least one.

    Where only some take part, g and H are estimated from them as in ``gradient-descent``. H is
    that of the clients that answer the first step of conjugate gradients; if one drops out
    later, the steps end with the v that they have, which is a direction of descent. If no client
    is left, or client j drops out, the round is lost.

    The columns `cg_residual` and `cg_tolerance` give the residual that the steps reached, by their
    recursion; a warning reports a residual above the tolerance.

    It is for convex problems; elsewhere its steps may lead to a saddle.

    Deviations from the paper: where H is singular or not positive along a direction the steps end
    there, with v so far or, in the first, with P^-1 g (Nocedal and Wright, "Numerical
    Optimization", 2nd ed., Algorithm 7.1). Objectives are not rescaled to be self-concordant.

    Examples
    --------
    >>> half = Preconditioner.of(np.diag([1.0, 3.0]), ridge=1.0)
    >>> half.solve(np.array([2.0, 4.0])).tolist()
    [1.0, 1.0]
    """

    name: ClassVar[str] = "disco"
    coded: ClassVar[Coded] = {}
    needs: ClassVar[Terms] = FullGradient.needs | {EXACT_DOWNLOADS, VECTORS}
    gives: ClassVar[Terms] = frozenset({MODEL})
    diagnostics: ClassVar[tuple[Column, ...]] = (
        GRADIENT_NORM,
        Column(
            "newton_decrement", "Newton decrement", better="lower",
            about="sqrt(v' H v) of the direction v that conjugate gradients found.",
        ),
        COMMUNICATIONS,
        CG_RESIDUAL,
        CG_TOLERANCE,
    )  # fmt: skip
    curved: ClassVar[bool] = True

    damped: bool = True
    step: Annotated[float, Gt(0)] = 1.0
    tolerance: Annotated[float, Gt(0)] | None = None
    ridge: Annotated[float, Gt(0)] = 0.01
    preconditioner: Annotated[int, Ge(0)] | Literal["first", "none"] = "first"
    max_steps: Annotated[int, Ge(1)] | None = None

    def bound(self, shards: Shards, population: Population, objective: Objective) -> FullGradient:
        """Return the algorithm as it is.

        Raises
        ------
        ScenarioError
            If P is to be that of an unknown client.
        """
        n, one = population.count, self.preconditioner
        if isinstance(one, int) and one >= n:
            what = f"found client {one}; ids go from 0 to {n - 1}"
            raise ScenarioError("preconditioner", what)
        return self

    @property
    def setting_needs(self) -> Terms:
        """Hessians for the tolerance or the preconditioner, or else products with vectors."""
        products_alone = self.tolerance is not None and self.preconditioner == "none"
        return frozenset({PRODUCTS if products_alone else HESSIANS})

    def slope_and_bounds(self, clients: Clients, x: Array) -> Upload:
        """Client function: `slope`, and the extreme eigenvalues (K,) of H_i at x (p,)."""
        upload = self.slope(clients, x)
        eigenvalues = np.linalg.eigvalsh(clients.hessian(x)).astype(np.float64)
        bounds = {"least": eigenvalues[:, 0], "largest": eigenvalues[:, -1]}
        return Upload({**upload.values, **bounds}, state=upload.state)

    def curve(self, clients: Clients, u: Array) -> Upload:
        """Client function: H_i u at the model of the round, for u (p,); upload (K, p)."""
        return Upload(terms(clients, product=clients.hvp(clients.state["x"], u)))

    def hessian(self, clients: Clients) -> Upload:
        """Client function: the Hessian (K, p, p) at the model of the round."""
        return Upload({"hessian": clients.hessian(clients.state["x"])})

    def round(self, state: State) -> Round:
        """Server function: Algorithm 1, with Algorithm 2 inside."""
        x = state["x"]
        up = {"gradient": x.size, SHARE: 1}
        if self.tolerance is None:
            passes = 1 + self._hessian_passes(x.size)
            up |= {"least": 1, "largest": 1}
            reply = yield Ask("slope_and_bounds", {"x": x}, up, cost=0, passes=passes)
        else:
            reply = yield Ask("slope", {"x": x}, up, cost=0, passes=1)
        g = total(reply, "gradient")
        P = yield from self._preconditioner(x.size, reply.ids)
        tolerance = self._tolerance(reply, x)
        direction = yield from self._direction(g, P, tolerance)
        step = self.step / (1 + direction.decrement) if self.damped else self.step
        return {"x": x - step * direction.v}, {
            "gradient_norm": float(np.linalg.norm(g)),
            "newton_decrement": direction.decrement,
            "communications": 1 + direction.exchanges,
            "cg_residual": direction.residual,
            "cg_tolerance": tolerance,
        }

    def warnings(self, reported: Mapping[str, Floats]) -> list[str]:
        """Warn about rounds that ended with a residual above the tolerance."""
        return unsolved(self.label or self.name, reported)

    def _tolerance(self, reply: Reply, x: Array) -> float:
        """Return the residual, relative to ||g||, at which conjugate gradients stop."""
        if self.tolerance is not None:
            return self.tolerance
        m, L = float(reply.each["least"].min()), float(reply.each["largest"].max())
        relative = _SHARE_OF_ROOT * math.sqrt(m / L) if m > 0 else 0.0
        return max(relative, float(np.finfo(x.dtype).eps))  # where a Hessian is singular

    def _hessian_passes(self, p: int) -> float:
        return max(1.0, p / 4)

    def _preconditioner(self, p: int, ids: Ints) -> Generator[Ask, Reply, Preconditioner]:
        """Return P from one client's Hessian."""
        if self.preconditioner == "none":
            return Preconditioner()
        chosen = ids[:1] if self.preconditioner == "first" else ids[ids == self.preconditioner]
        one = chosen if len(chosen) else ids[:1]
        passes = 0.0 if self.tolerance is None else self._hessian_passes(p)  # it has it already
        reply = yield Ask("hessian", {}, {"hessian": p * p}, cost=0, passes=passes, clients=one)
        return Preconditioner.of(reply.mean["hessian"], self.ridge)

    def _direction(
        self, g: Array, P: Preconditioner, tolerance: float
    ) -> Generator[Ask, Reply, Direction]:
        """Return v with ||H v - g|| <= tolerance ||g||, for g (p,): Algorithm 2."""
        norm_g = float(np.linalg.norm(g))
        bound = tolerance * norm_g
        v, Hv, r = np.zeros_like(g), np.zeros_like(g), g
        u = s = P.solve(r)
        answered, exchanges = 0, 0
        while float(np.linalg.norm(r)) > bound and exchanges < (self.max_steps or g.size):
            up = {"product": g.size, SHARE: 1}
            reply = yield Ask("curve", {"u": u}, up, cost=0, passes=1)
            exchanges += 1
            if len(reply.ids) < answered:  # another H: v goes with the one that it was begun with
                break
            answered = len(reply.ids)
            Hu = total(reply, "product")
            curvature = float(u @ Hu)
            if not curvature > 0:
                first = exchanges == 1
                left = float(np.linalg.norm(g - Hu if first else r)) / norm_g
                return Direction(s if first else v, _length(v, Hv), exchanges, left)
            alpha = g.dtype.type(float(r @ s) / curvature)
            v, Hv, after = v + alpha * u, Hv + alpha * Hu, r - alpha * Hu
            s_after = P.solve(after)
            u = s_after + g.dtype.type(float(after @ s_after) / float(r @ s)) * u
            r, s = after, s_after
        left = float(np.linalg.norm(r)) / norm_g if norm_g > 0 else 0.0
        return Direction(v, _length(v, Hv), exchanges, left)


def _length(v: Array, Hv: Array) -> float:
    """Return sqrt(v'Hv)."""
    return math.sqrt(max(float(v @ Hv), 0.0))
