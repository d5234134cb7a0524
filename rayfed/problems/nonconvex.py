"""The nonconvex regulariser ``c sum_j x_j^2 / (1 + x_j^2)`` of problems with linear scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from annotated_types import Ge

from rayfed.core.arrays import Array
from rayfed.problems.base import Batch, Problem, Scores

LEAST_CURVATURE, LARGEST_CURVATURE = -0.5, 2.0
"""Bounds of `second`: attained at |x| = 1 and at 0."""


@dataclass(frozen=True, kw_only=True)
class Regularised(Problem):
    """Base of problems that may have the nonconvex term.

    Parameters
    ----------
    nonconvex : float
        Coefficient c of ``c sum_j x_j^2 / (1 + x_j^2)``, which is added to every F_i and to F; 0
        for none. It spares intercepts where the l2 term does.
    """

    nonconvex: Annotated[float, Ge(0)] = 0.0

    @property
    def has_optimum(self) -> bool:
        """Whether the minimiser of F can be found: F is convex."""
        return super().has_optimum and not self.nonconvex

    def pooled(self, l2: float, weight: float) -> Regularised:
        """Return the problem of one client that has all rows."""
        return replace(self, l2=l2, l2_per="client", nonconvex=self.nonconvex * weight)

    def value(self, x: Array, batch: Batch) -> Array:
        """Return the objectives (K,) at x, (K, p) or (1, p)."""
        value = super().value(x, batch)
        return value + total(x, self._coefficients(x, batch)) if self.nonconvex else value

    def scored(self, x: Array, batch: Batch) -> Scores:
        """Return the scores of the rows of a batch at x, (K, p) or (1, p), without the term."""
        without = replace(self, nonconvex=0.0) if self.nonconvex else self
        return super(Regularised, without).scored(x, batch)

    def gradient(self, x: Array, batch: Batch) -> Array:
        """Return the gradients (K, p) at x, (K, p) or (1, p)."""
        gradient = super().gradient(x, batch)
        if self.nonconvex:
            gradient += self._coefficients(x, batch) * slope(x)
        return gradient

    def value_and_gradient(self, x: Array, batch: Batch) -> tuple[Array, Array]:
        """Return `value` (K,) and `gradient` (K, p), computing the common part once."""
        value, gradient = super().value_and_gradient(x, batch)
        if self.nonconvex:
            c = self._coefficients(x, batch)
            value = value + total(x, c)
            gradient += c * slope(x)
        return value, gradient

    def hessian(self, x: Array, batch: Batch) -> Array:
        """Return the Hessians (K, p, p) at x, (K, p) or (1, p)."""
        hessian = super().hessian(x, batch)
        if self.nonconvex:
            diagonal = np.einsum("kii->ki", hessian)  # a view
            diagonal += self._coefficients(x, batch) * second(x)
        return hessian

    def hvp(self, x: Array, v: Array, batch: Batch) -> Array:
        """Return the Hessians at x times v, (K, p) or (1, p), as (K, p)."""
        product = super().hvp(x, v, batch)
        if self.nonconvex:
            product += self._coefficients(x, batch) * second(x) * v
        return product

    def curvature(self, batch: Batch) -> tuple[Array, Array] | None:
        """Return m and l (K,) with ``m_i I <= Hessian of F_i <= l_i I`` at every x."""
        bounds = super().curvature(batch)
        if bounds is None or not self.nonconvex:
            return bounds
        least, largest = LEAST_CURVATURE * self.nonconvex, LARGEST_CURVATURE * self.nonconvex
        return bounds[0] + least, bounds[1] + largest

    def smoothness(self, batch: Batch) -> Array | None:
        """Return l (K,) of `curvature`, without matrices (d, d); it may be a little too small."""
        largest = super().smoothness(batch)
        if largest is None or not self.nonconvex:
            return largest
        return np.asarray(largest + LARGEST_CURVATURE * self.nonconvex)

    def _coefficients(self, x: Array, batch: Batch) -> Array:
        """Return the coefficient of each coordinate (p,)."""
        p = x.shape[1]
        coefficients = np.full(p, self.nonconvex, x.dtype)
        if self.intercept and not self.regularise_intercept:
            coefficients[self.intercepts(batch.X.shape[2], p)] = 0
        return coefficients


def total(x: Array, c: Array) -> Array:
    """Return ``sum_j c_j x_j^2 / (1 + x_j^2)`` (K,) for models (K, p).

    Examples
    --------
    >>> total(np.array([[1.0, 0.0, -2.0]]), np.ones(3)).tolist()
    [1.3]
    """
    value: Array = np.vecdot(x, c * x / (1 + x * x))
    return value


def slope(x: Array) -> Array:
    """Return the derivatives ``2 x_j / (1 + x_j^2)^2`` (K, p)."""
    derivative: Array = 2 * x / (1 + x * x) ** 2
    return derivative


def second(x: Array) -> Array:
    """Return the second derivatives ``(2 - 6 x_j^2) / (1 + x_j^2)^3`` (K, p)."""
    square = x * x
    derivative: Array = (2 - 6 * square) / (1 + square) ** 3
    return derivative
