"""RWSADMM's theory: the bound on the penalty, and the Lagrangian."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from rayfed.algorithms.rwsadmm.tolerance import pull, widths
from rayfed.clients.curvature import curvature, smoothness
from rayfed.core.arrays import Array, inner, to_numpy
from rayfed.core.columns import Column, names
from rayfed.measures import MeasureView
from rayfed.measures.base import Measure
from rayfed.messages import State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients
    from rayfed.datasets.shards import Shards
    from rayfed.population import Population
    from rayfed.problems.objective import Objective

_SOON = 1e9  # multiplications
_SOON_READ = 5e7  # numbers of rows, which a power iteration reads up to a hundred times
_MOST_CLIENTS = 100_000  # each takes some microseconds, however few its rows


@dataclass(frozen=True, kw_only=True)
class Penalty(Measure):
    """Warns if beta is smaller than the theory asks for.

    Parameters
    ----------
    label : str
        Name of the algorithm in the warning.
    beta : float
        Penalty of the algorithm.
    beta_bound : float
        ``2 L^2 + L + 2``, which beta should be above. Set by `bound`; NaN if L is not known.
    sought : bool
        Whether L was sought. It is not if that takes more than a few seconds.
    """

    label: str
    beta: float
    beta_bound: float = math.nan
    sought: bool = True

    def bound(self, shards: Shards, population: Population, objective: Objective) -> Self:
        """Return the measure with its bound on beta, if that is soon found."""
        if soon(shards):
            return replace(self, beta_bound=beta_bound(shards, objective))
        if soon_iterated(shards):
            return replace(self, beta_bound=_above(smoothness(shards, objective)))
        return replace(self, sought=False)

    def warnings(self) -> list[str]:
        """Say that beta is too small for the theory, or that this was not checked."""
        prefix = f"{self.label}: beta {self.beta:g}"
        if not self.sought:
            return [f"{prefix} was not compared with 2 L^2 + L + 2: L takes long to find here"]
        if not self.beta <= self.beta_bound:
            return []
        return [f"{prefix} is not above 2 L^2 + L + 2 = {self.beta_bound:.4g}, as the theory asks"]


@dataclass(frozen=True, kw_only=True)
class Lagrangian(Penalty):
    """Measures the augmented Lagrangian of RWSADMM and its gradient.

    Its state is the least norm of the gradient so far.

    Parameters
    ----------
    epsilon : float or tuple of float
        Room between x_j and y, for all clients or for each.
    """

    columns: ClassVar[tuple[Column, ...]] = (
        Column(
            "lagrangian", "augmented Lagrangian",
            about="Mean over the clients of their augmented Lagrangians.",
        ),
        Column(
            "stationarity", "gradient of the Lagrangian", better="lower",
            about="Norm of the gradient of the summed Lagrangian in all models, multipliers and "
            "the token.",
        ),
        Column(
            "stationarity_best", "least gradient of the Lagrangian so far", better="lower",
            about="The least stationarity of all evaluations so far.",
        ),
        Column(
            "beta_bound", "what beta should be above",
            about="2 L^2 + L + 2; NaN if the smoothness L is not known.",
        ),
    )  # fmt: skip

    epsilon: float | tuple[float, ...]

    def bound(self, shards: Shards, population: Population, objective: Objective) -> Self:
        """Return the measure with its bound on beta, however long that takes."""
        return replace(self, beta_bound=beta_bound(shards, objective))

    def init(self) -> State:
        """Return a least norm that is not known."""
        return {"best": np.array(math.nan)}

    def lagrangian(self, clients: Clients, y: Array) -> Upload:
        """Client function: value, squared gradients in x_j and z_j, 1 (K, 3); gradient in y.

        With P_j = S(z_j + beta (y - x_j)) they are F_j(x_j) + (||P_j||^2 - ||z_j||^2) / (2 beta),
        ||grad F_j(x_j) - P_j||^2 + ||(P_j - z_j) / beta||^2, and P_j.
        """
        x, z = clients.state["x"], clients.state["z"]
        P = pull(x, z, y, widths(self.epsilon, clients, x), self.beta)
        value = to_numpy(clients.value(x)) + (_squares(P) - _squares(z)) / (2 * self.beta)
        slope = _squares(clients.gradient(x) - P) + _squares((P - z) / self.beta)
        terms = np.stack([value, slope, np.ones_like(value)], axis=1)
        return Upload({"terms": terms, "pull": P})

    def measure(self, view: MeasureView, known: State) -> tuple[Mapping[str, float], State]:
        """Return the Lagrangian, the norm of its gradient, the least so far, the bound on beta.

        All but the last are NaN unless all clients are evaluated.
        """
        y = view.server["x"]
        sums = view.ask("lagrangian", {"y": y}, {"terms": 3, "pull": y.size}).sums
        value, slope, asked = sums["terms"].tolist()
        mean, norm = math.nan, math.nan
        if asked == view.population.count:
            mean = value / asked
            norm = math.sqrt(slope + float(np.vecdot(sums["pull"], sums["pull"])))
        best = float(np.fmin(known["best"], norm))
        row = dict(zip(names(self.columns), (mean, norm, best, self.beta_bound), strict=True))
        return row, {"best": np.array(best)}


def soon(shards: Shards) -> bool:
    """Whether L is found in about a second: an eigenvalue of a matrix (d, d) for each client."""
    width = shards.features + 1
    if shards.clients > _MOST_CLIENTS or shards.clients * width**3 > _SOON:
        return False
    return bool(shards.sizes(np.arange(shards.clients)).sum() * width**2 <= _SOON)


def soon_iterated(shards: Shards) -> bool:
    """Whether L is found in a few seconds by power iteration, which forms no matrix (d, d)."""
    if shards.clients > _MOST_CLIENTS:
        return False
    rows = int(shards.sizes(np.arange(shards.clients)).sum())
    return bool(rows * (shards.features + 1) <= _SOON_READ)


def beta_bound(shards: Shards, objective: Objective) -> float:
    """Return ``2 L^2 + L + 2``, NaN if L is not known; all rows are read once.

    L is the largest Lipschitz constant of the clients' gradients.
    """
    bounds = curvature(shards, objective)
    return _above(None if bounds is None else float(bounds[1].max()))


def _above(steepest: float | None) -> float:
    """Return ``2 L^2 + L + 2``, NaN if L is not known."""
    return math.nan if steepest is None else 2 * steepest**2 + steepest + 2


def _squares(v: Array) -> Array:
    """Return ||v_j||^2 (K,)."""
    squares: Array = to_numpy(inner(v, v)).astype(np.float64)
    return squares
