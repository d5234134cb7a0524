"""Steps of FedHybrid that are proven to converge, and how fast."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rayfed.clients.curvature import curvature
from rayfed.core.arrays import Array, Floats
from rayfed.core.errors import ScenarioError
from rayfed.datasets.shards import Shards
from rayfed.problems.objective import Objective


@dataclass(frozen=True)
class Theorem:
    """Steps that make FedHybrid converge, and how fast (after Theorem 4.1 of Niu and Wei).

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
        text = f"found theorem, but nobody knows how curved '{objective.problem.name}' can be"
        raise ScenarioError("steps", f"{text}; give the steps instead")
    factor = objective.relative(shards.mass(np.arange(shards.clients)))
    low, high = factor * bounds[0], factor * bounds[1]
    if low.min() <= 1e-12 * high.max():
        text = f"found theorem, but client {low.argmin()} has a flat direction"
        raise ScenarioError("steps", f"{text}; give problem.l2, or the steps instead")
    return low, high
