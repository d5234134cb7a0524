"""Normalisation of the client objectives F_i and the global objective F."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.problems.base import Problem


@dataclass(frozen=True)
class Objective:
    """The normalisations of one study.

    ``F_i = (sum of sample losses) / D_i + ridge_i / 2 ||x||^2`` and ``F = sum_i w_i F_i``.

    Parameters
    ----------
    problem : Problem
        Its ``divide_by``, ``l2``, ``l2_per``, ``weighting`` and ``regularise_intercept`` are used.
    clients : int
        Number N of clients.
    samples : int
        Number n of training rows over all clients.
    features : int
        Columns d of X, the column of ones included.
    row : float, optional
        1 / D_i for every row, if all rows are pooled at one client.
    mass : float, optional
        Total mass of the clients; n if None.
    """

    problem: Problem
    clients: int
    samples: int
    features: int
    row: float | None = None
    mass: float | None = None

    def per_row(self, sizes: Ints) -> Floats:
        """Return 1 / D_i (K,): D_i is n_i, n or 1 by ``divide_by``."""
        if self.row is not None:
            return np.full(len(sizes), self.row)
        if self.problem.divide_by == "samples":
            return 1.0 / sizes
        divisor = self.samples if self.problem.divide_by == "all-samples" else 1
        return np.full(len(sizes), 1.0 / divisor)

    def ridge(self, sizes: Ints, p: int) -> Array | None:
        """Return the l2 coefficients (K, 1), or (K, p) if intercepts are exempt, or None."""
        if self.problem.l2 == 0:
            return None
        coefficient = self._l2(sizes)
        if not self.problem.intercept or self.problem.regularise_intercept:
            return np.asarray(coefficient[:, None])
        mask = np.ones(p)
        mask[self.problem.intercepts(self.features, p)] = 0.0
        return np.asarray(coefficient[:, None] * mask)

    def weights(self, mass: Floats) -> Floats:
        """Return the raw weight of F_i in F (K,): the mass under ``weighting: size``, else 1.

        Parameters
        ----------
        mass : (K,) array of float
            Mass of each client: n_i unless the data defines it.
        """
        return mass if self.problem.weighting == "size" else np.ones(len(mass))

    def relative(self, mass: Floats) -> Floats:
        """Return w_i relative to the mean of w_i over all clients (K,).

        With these factors the sum over all clients of ``factor_i F_i`` has the minimiser of F; if
        `weighting` is "sum" it equals F.
        """
        return self.shares(mass) if self.problem.weighting == "size" else np.ones(len(mass))

    def shares(self, mass: Floats) -> Floats:
        """Return the masses of clients (K,) relative to the mean over all clients."""
        return mass * (self.clients / self.total_mass)

    @property
    def total_mass(self) -> float:
        """Total mass of the clients."""
        return self.samples if self.mass is None else self.mass

    def normaliser(self, weights: float, clients: int) -> float:
        """Return the divisor of ``sum_i weight_i F_i`` over some clients that estimates F.

        Parameters
        ----------
        weights : float
            Sum of the raw weights of the clients that were evaluated.
        clients : int
            Number of these clients; if all are evaluated the estimate is F itself.
        """
        return clients / self.clients if self.problem.weighting == "sum" else weights

    def per_mass(self, mass: Floats) -> tuple[Floats, Floats]:
        """Return weight and share of each client (K,), divided by its mass.

        ``sum_i weight_i F_i / sum_i share_i`` over all clients is F, over some an estimate of it.
        A mean over participants weights client i by ``mass_i``, or draws it in proportion; with
        terms divided by the mass, both have the right weights.

        Parameters
        ----------
        mass : (K,) array of float
        """
        if self.problem.weighting == "size":
            return np.ones(len(mass)), np.ones(len(mass))
        inverse = 1.0 / mass
        share = inverse / self.clients if self.problem.weighting == "sum" else inverse
        return inverse, share

    def centralised(self, sizes: Ints, mass: Floats | None = None) -> Objective:
        """Return F itself, as the objective of one client that has all rows.

        Parameters
        ----------
        sizes : (N,) array of int
            Rows of every client.
        mass : (N,) array of float, optional
            Mass of every client; its number of rows if None.

        Raises
        ------
        ScenarioError
            If the rows of some clients weigh more in F than those of others.
        """
        weights = self.weights(sizes.astype(np.float64) if mass is None else mass)
        weights = weights / self.normaliser(float(weights.sum()), len(sizes))
        rows = weights * self.per_row(sizes)
        if np.ptp(rows) > 1e-12 * rows.max():
            raise ScenarioError(
                "problem.weighting",
                f"'{self.problem.weighting}' with divide_by '{self.problem.divide_by}' weights "
                "the rows of clients unequally, which the baseline "
                "'centralised' cannot do; leave it out or use weighting 'size'",
            )
        l2 = 0.0 if self.problem.l2 == 0 else float(weights @ self._l2(sizes))
        problem = self.problem.pooled(l2, float(weights.sum()))
        return replace(self, problem=problem, row=float(rows[0]))

    def _l2(self, sizes: Ints) -> Floats:
        """Return l2_i (K,)."""
        if self.problem.l2_per == "sample":
            return self.problem.l2 / sizes
        per = self.clients if self.problem.l2_per == "population" else 1
        return np.full(len(sizes), self.problem.l2 / per)
