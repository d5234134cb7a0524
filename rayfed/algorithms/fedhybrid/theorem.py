"""FedHybrid's theorem: steps that are proven to converge, the rate, and the merit function."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from rayfed.algorithms.fedhybrid.newton import Newton, newton_clients
from rayfed.clients.curvature import curvature
from rayfed.core.arrays import Array, Floats
from rayfed.core.columns import Column
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import FIXED_ROWS, Terms
from rayfed.datasets.shards import Shards
from rayfed.measures import MeasureView, Use
from rayfed.measures.base import Measure
from rayfed.messages import State, Upload
from rayfed.numerics.minimise import minimise
from rayfed.problems.objective import Objective


@dataclass(frozen=True)
class Theorem:
    """Steps with which FedHybrid converges, and the rate (after Theorem 4.1 of Niu and Wei).

    Parameters
    ----------
    low, high : (N,) array of float
        m_i and l_i: ``m_i I <= Hessian of f_i <= l_i I`` everywhere.
    newton : (N,) array of bool
        Who takes Newton steps.
    mu : float
        Penalty.

    Notes
    -----
    With ``Delta_lambda = g* - g(lambda)``, what the dual function g(lambda) = min_x L(x, lambda)
    lacks, ``Delta_x = L(x, lambda) - g(lambda)`` and A, B the matrices of the primal and the dual
    steps, a round in which everyone takes part gives

        Delta+ <= Delta - 7 b/(mu + l) 2 Delta_lambda - 0.3 a 2 m Delta_x

    for ``Delta = 13 Delta_lambda + Delta_x``, a and b the least eigenvalues of A and B, if

        A <= 1 / (22 mu/9 + 2 l),   B <= min(mu/9, a c/21),   c = (m + mu)^2 or, if m < mu, 4 m mu.

    The reason for c: the clients' gradients r of L and the error e of their disagreement fulfil
    ``||r||^2 >= c ||e||^2``; for many clients and m < mu nothing larger than 4 m mu does. The
    likely reading of the print has (m + mu)^2 throughout: Delta can rise there.

    Examples
    --------
    >>> theorem = Theorem(np.ones(2), np.ones(2), np.array([False, True]), mu=1.0)
    >>> primal, dual = theorem.steps
    >>> primal.round(4).tolist(), dual.round(4).tolist()
    ([0.225, 0.45], [0.0429, 0.0214])
    """

    low: Floats
    high: Floats
    newton: Array
    mu: float

    @classmethod
    def of(cls, ids: tuple[int, ...], mu: float, shards: Shards, objective: Objective) -> Theorem:
        """Return the theorem for these clients, those in ids taking Newton steps.

        Raises
        ------
        ScenarioError
            As `curvatures`.
        """
        newton = np.isin(np.arange(shards.clients), ids)
        return cls(*curvatures(shards, objective), newton, mu)

    @property
    def steps(self) -> tuple[Floats, Floats]:
        """The longest primal and dual steps a_i and b_i (N,) that fulfil the conditions."""
        mu, m = self.mu, float(self.low.min())
        largest = 1 / (22 * mu / 9 + 2 * float(self.high.max()))
        primal = np.where(self.newton, (self.low + mu) * largest, largest)
        c = (m + mu) ** 2 if m >= mu else 4 * m * mu
        bound = min(mu / 9, float(self._least(primal)) * c / 21)
        return primal, np.where(self.newton, bound / (self.high + mu), bound)

    @property
    def contraction(self) -> float:
        """The factor < 1 by which Delta falls in every round, at least."""
        primal, dual = self.steps
        slowest = np.where(self.newton, dual * (self.low + self.mu), dual).min()
        by_dual = 14 / 13 * float(slowest) / (self.mu + float(self.high.max()))
        return 1 - min(by_dual, 0.6 * float(self._least(primal)) * float(self.low.min()))

    def _least(self, primal: Floats) -> Floats:
        """Return the least eigenvalue of A: of a_i I, or of a_i (H_i + mu I)^-1."""
        least: Floats = np.where(self.newton, primal / (self.high + self.mu), primal).min()
        return least


def curvatures(shards: Shards, objective: Objective) -> tuple[Floats, Floats]:
    """Return m_i and l_i (N,) of the terms f_i, those F_i that FedHybrid's sum is made of.

    Raises
    ------
    ScenarioError
        If the problem knows no bounds, or F is not strongly convex.
    """
    bounds = curvature(shards, objective)
    if bounds is None:
        text = (
            f"found theorem, but no bound on the curvature of '{objective.problem.name}' is known"
        )
        raise ScenarioError("steps", f"{text}; give the steps instead")
    factor = objective.relative(shards.mass(np.arange(shards.clients)))
    low, high = factor * bounds[0], factor * bounds[1]
    if low.min() <= 1e-12 * high.max():
        text = f"found theorem, but client {low.argmin()} has a flat direction"
        raise ScenarioError("steps", f"{text}; give problem.l2, or the steps instead")
    return low, high


if TYPE_CHECKING:
    from rayfed.clients import Clients
    from rayfed.datasets.shards import Shards
    from rayfed.population import Population
    from rayfed.problems.objective import Objective


@dataclass(frozen=True, kw_only=True)
class Merit(Measure):
    """Measures Delta = 13 (g* - g(lambda)) + L(x, lambda) - g(lambda).

    g(lambda) = min L(., lambda) is searched as the least value over z (p,) of the sum of
    ``e_i(z) = min over v of f_i(v) + lambda_i'(z - v) + mu/2 ||z - v||^2``, which each client
    minimises for itself; g* is the least value of sum_i f_i.

    Its state is Delta and the round of the last evaluation.

    Parameters
    ----------
    mu : float
        Penalty of the algorithm.
    newton : int, float, list of int or str, optional
        Whose steps are Newton's, if the steps are the theorem's; None if nothing is proven.
    contraction : float
        The theorem's factor: Delta falls by at least this in a round. Set by `bound`.
    multiple : float
        What F is multiplied by to be sum_i f_i. Set by `bound`.
    """

    columns: ClassVar[tuple[Column, ...]] = (
        Column(
            "merit", "merit function of the theorem", better="lower",
            about="Delta of the convergence theorem; NaN if F* is not known.",
        ),
        Column(
            "contraction", "contraction that is guaranteed",
            about="Factor by which the merit must fall in every round in which everyone takes "
            "part; NaN unless the steps are the theorem's.",
        ),
        Column(
            "contraction_measured", "contraction that is measured",
            about="Factor by which the merit has fallen a round since the last evaluated row.",
        ),
    )  # fmt: skip
    needs: ClassVar[Terms] = frozenset({FIXED_ROWS})
    uses: ClassVar[Set[Use]] = frozenset({"optimum"})

    mu: float
    newton: Newton | None = None
    contraction: float = math.nan
    multiple: float = math.nan

    def bound(self, shards: Shards, population: Population, objective: Objective) -> Self:
        """Return the measure with the contraction that is proven, and the scale of F."""
        contraction = math.nan
        if self.newton is not None:
            ids = newton_clients(self.newton, population)
            contraction = Theorem.of(ids, self.mu, shards, objective).contraction
        multiple = 1 if objective.problem.weighting == "sum" else objective.clients
        return replace(self, contraction=contraction, multiple=multiple)

    def init(self) -> State:
        """Return a Delta that is not known."""
        return {"merit": np.array(math.nan), "round": np.array(0)}

    def lagrangian(self, clients: Clients, x: Array) -> Upload:
        """Client function: the terms of L at x_i, lambda_i (K, p) and x_0 = x (p,), as (K, 1)."""
        values = [term(term.client.state["x"][0])[0] for term in self._terms(clients, x)]
        return Upload({"terms": np.array(values)[:, None]})

    def envelope(self, clients: Clients, z: Array) -> Upload:
        """Client function: e_i at z (p,), gradient and Hessian in one vector (K, 1 + p + p^2)."""
        return Upload({"terms": np.stack([term.envelope() for term in self._terms(clients, z)])})

    def measure(self, view: MeasureView, known: State) -> tuple[Mapping[str, float], State]:
        """Return Delta, NaN if F* is not known, and its proven and measured decrease."""
        merit = math.nan if view.optimum is None else self._merit(view, view.optimum.value)
        before, rounds = float(known["merit"]), view.round - int(known["round"])
        measured = (merit / before) ** (1 / rounds) if before > 0 and merit > 0 else math.nan
        row = {"merit": merit, "contraction": self.contraction, "contraction_measured": measured}
        return row, {"merit": np.array(merit), "round": np.array(view.round)}

    def _merit(self, view: MeasureView, least: float) -> float:
        """Return Delta at x_0 = x (p,), from the least value of F."""
        x = view.server["x"]
        total = _Sum(view, x.size)
        dual, _ = minimise(total, total.hessian, x, near=True)
        primal = float(view.ask("lagrangian", {"x": x}, {"terms": 1}).sums["terms"][0])
        return 13 * (self.multiple * least - dual) + primal - dual

    def _terms(self, clients: Clients, z: Array) -> list[_Term]:
        singles = (clients.only(k) for k in range(len(clients.ids)))
        return [_Term(client, self.mu, z.astype(np.float64)) for client in singles]


class _Sum:
    """The sum of the clients' e_i as a function of z (p,).

    It is asked for once where value, gradient and Hessian at one z are wanted one after the other.
    """

    def __init__(self, view: MeasureView, p: int) -> None:
        self.view, self.p = view, p
        self._z = np.full(p, math.nan)  # unlike any z
        self._terms = np.zeros(0)

    def __call__(self, z: Floats) -> tuple[float, Floats]:
        """Return value and gradient (p,)."""
        terms = self._at(z)
        return float(terms[0]), terms[1 : 1 + self.p]

    def hessian(self, z: Floats) -> Floats:
        """Return the Hessian (p, p)."""
        return self._at(z)[1 + self.p :].reshape(self.p, self.p)

    def _at(self, z: Floats) -> Floats:
        if not np.array_equal(z, self._z):
            size = 1 + self.p + self.p**2
            self._terms = self.view.ask("envelope", {"z": z}, {"terms": size}).sums["terms"]
            self._z = z.copy()
        return self._terms


@dataclass(frozen=True)
class _Term:
    """The term of L of one client as a function of v (p,), its x_i; z (p,) is in place of x_0.

    It is evaluated in float64, since a search over a function with the noise of float32 ends late.
    """

    client: Clients
    mu: float
    z: Floats

    def __call__(self, v: Array) -> tuple[float, Floats]:
        """Return value and gradient (p,)."""
        scale, off = self._scale, self.z - v
        value = scale * self.client.value(v)[0] + self._dual @ off + self.mu / 2 * off @ off
        return float(value), scale * self.client.gradient(v)[0] - self._dual - self.mu * off

    def hessian(self, v: Array) -> Floats:
        """Return the Hessian (p, p)."""
        H: Floats = self._scale * self.client.hessian(v)[0] + self.mu * np.eye(v.size)
        return H

    def envelope(self) -> Floats:
        """Return the least value over v, its gradient and its Hessian in z, flat."""
        least, v = minimise(self, self.hessian, self.client.state["x"][0], near=True)
        slope = self._dual + self.mu * (self.z - v)
        H = self.mu * np.eye(v.size) - self.mu**2 * np.linalg.inv(self.hessian(v))
        return np.concatenate([[least], slope, H.ravel()])

    @property
    def _dual(self) -> Floats:
        dual: Floats = self.client.state["dual"][0].astype(np.float64)
        return dual

    @property
    def _scale(self) -> float:
        """f_i / F_i, in the precision of the models."""
        return float(self.client.relative_weights.astype(self.client.state["x"].dtype)[0])
