"""RWSADMM, watched: whether its penalty is large enough, and what its Lagrangian does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from rayfed.algorithms.rwsadmm import RWSADMM
from rayfed.clients.curvature import curvature
from rayfed.core.arrays import Array, Floats
from rayfed.engine.stopping import BEST
from rayfed.messages import Probe, State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients
    from rayfed.datasets.shards import Shards
    from rayfed.problems.objective import Objective

_SOON = 1e9  # multiplications
_MOST_CLIENTS = 100_000  # each of whom takes some microseconds, however few its rows


@dataclass(frozen=True, kw_only=True)
class Watched(RWSADMM):
    """RWSADMM that knows what beta should be above, and its augmented Lagrangian where asked.

    Parameters
    ----------
    beta_bound : float
        ``2 L^2 + L + 2``; NaN where L is not known.
    """

    beta_bound: float

    def lagrangian(self, clients: Clients, y: Array) -> Upload:
        """Client half: value, squared gradient in x_j and z_j, and 1 (K, 3); gradient in y (K, p).

        With P_j = S(z_j + beta (y - x_j)) they are F_j(x_j) + (||P_j||^2 - ||z_j||^2) / (2 beta),
        ||grad F_j(x_j) - P_j||^2 + ||(P_j - z_j) / beta||^2, and P_j.
        """
        x, z = clients.state["x"], clients.state["z"]
        pull = self.pull(x, z, y, self.room(clients))
        value = clients.value(x) + (_squares(pull) - _squares(z)) / (2 * self.beta)
        slope = _squares(clients.gradient(x) - pull) + _squares((pull - z) / self.beta)
        terms = np.stack([value, slope, np.ones_like(value)], axis=1)
        return Upload({"terms": terms, "pull": pull})

    def examine(self, state: State, probe: Probe) -> Mapping[str, float]:
        """Return the Lagrangian, the norm of its gradient, and the bound on beta."""
        y, told = state["x"], {"beta_bound": self.beta_bound}
        sums = probe.ask("lagrangian", {"y": y}, {"terms": 3, "pull": y.size})
        value, slope, asked = sums["terms"].tolist()
        if asked < probe.population:
            return told | dict.fromkeys(("lagrangian", "stationarity", BEST), math.nan)
        norm = math.sqrt(slope + float(np.vecdot(sums["pull"], sums["pull"])))
        return told | {"lagrangian": value / asked, "stationarity": norm, BEST: norm}

    def warnings(self, told: Mapping[str, Floats]) -> list[str]:
        """Say that beta is too small for the theory, where L is known."""
        if not self.beta <= self.beta_bound:
            return []
        who = f"{self.label or self.name}: beta {self.beta:g}"
        return [f"{who} is not above 2 L^2 + L + 2 = {self.beta_bound:.4g}, as the theory asks"]


def soon(shards: Shards) -> bool:
    """Whether L is found in about a second: an eigenvalue of a matrix (d, d) for each client."""
    width = shards.features + 1
    if shards.clients > _MOST_CLIENTS or shards.clients * width**3 > _SOON:
        return False
    return bool(shards.sizes(np.arange(shards.clients)).sum() * width**2 <= _SOON)


def watched(algorithm: RWSADMM, shards: Shards, objective: Objective) -> Watched:
    """Return the algorithm, watched; all rows are read once for L."""
    found, bound = curvature(shards, objective), math.nan
    if found is not None:
        steepest = float(found[1].max())
        bound = 2 * steepest**2 + steepest + 2
    settings = {f.name: getattr(algorithm, f.name) for f in fields(algorithm)}
    return Watched(**settings, beta_bound=bound)


def _squares(v: Array) -> Array:
    """Return ||v_j||^2 (K,)."""
    squares: Array = np.vecdot(v, v).astype(np.float64)
    return squares
