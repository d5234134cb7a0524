"""Least squares: linear regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from rayfed.problems.base import Array, Batch
from rayfed.problems.linear import Linear, combine, scores


@dataclass(frozen=True, kw_only=True)
class LeastSquares(Linear):
    """Least squares: the loss of a row (a, y) is ``(a'x - y)^2 / 2``.

    With the default keys F_i is the mean over the client's n_i rows of half the squared residual,
    and F the mean over all n rows. Without ``half`` the loss is ``(a'x - y)^2`` and its gradient
    ``2 (a'x - y) a``: a study whose objective has no half but whose step uses ``(a'x - y) a``
    is written with ``half: false`` and half its local learning rate.

    Parameters
    ----------
    half : bool
        Whether squares are halved.

    Examples
    --------
    One client with the single row a = (1, 2), y = 1, at x = (1, 1): the residual is 2.

    >>> from rayfed.problems.base import Batch
    >>> batch = Batch(np.array([[[1.0, 2.0]]]), np.array([[1.0]]), np.ones((1, 1)), None)
    >>> value, gradient = LeastSquares().value_and_gradient(np.ones((1, 2)), batch)
    >>> value.tolist(), gradient.tolist()
    ([2.0], [[2.0, 4.0]])
    """

    name: ClassVar[str] = "least-squares"
    task: ClassVar[Literal["regression", "binary", "multiclass"]] = "regression"

    half: bool = True

    def losses(self, z: Array, y: Array) -> tuple[Array, Array]:
        """Return ``r^2 / 2`` and ``r = z - y`` (K, B), or both doubled."""
        residual = z - y.astype(z.dtype, copy=False)
        scale = 1.0 if self.half else 2.0
        return (0.5 * scale) * (residual * residual), scale * residual

    def data_value_and_gradient(self, x: Array, batch: Batch) -> tuple[Array, Array]:
        """Return ``sum_b w_b loss_b`` (K,) and its gradient (K, p).

        What `Linear` does, with fewer passes over the rows: small problems are made of overhead.
        """
        residual = scores(x, batch.X)
        residual -= batch.y
        slope = batch.w * residual
        value: Array = np.vecdot(slope, residual)
        if self.half:
            value *= 0.5
        else:
            slope *= 2.0
        return value, combine(slope, batch.X)

    def curvatures(self, z: Array, y: Array) -> Array:
        """Return 1, or 2."""
        return np.full_like(z, 1.0 if self.half else 2.0)

    def predict(self, x: Array, X: Array) -> Array:
        """Return ``a'x`` for every row, (K, B)."""
        return scores(x, X)
