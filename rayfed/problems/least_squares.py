"""Least squares: linear regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from rayfed.core.arrays import Array
from rayfed.problems.base import Batch, Oracle, gram
from rayfed.problems.logistic_regression import LinearModel, scores
from rayfed.problems.picture import Picture

_SHORT = 64


@dataclass(frozen=True, kw_only=True)
class LeastSquares(LinearModel):
    """Least squares: the loss of a row (a, y) is ``(a'x - y)^2 / 2``.

    With default settings F_i is the mean over the client's n_i rows of half the squared residual,
    and F the mean over all n rows. Without ``half`` the loss is ``(a'x - y)^2`` and its gradient
    ``2 (a'x - y) a``: a study whose objective has no half but whose step uses ``(a'x - y) a``
    is written with ``half: false`` and half its local learning rate.

    Parameters
    ----------
    half : bool
        Whether the squared residual is halved.

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

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        """Both are 1, or 2 without `half`."""
        return (1.0, 1.0) if self.half else (2.0, 2.0)

    def losses(self, z: Array, y: Array) -> tuple[Array, Array]:
        """Return ``r^2 / 2`` and ``r = z - y`` (K, B), or both doubled."""
        residual = z - y.astype(z.dtype, copy=False)
        scale = 1.0 if self.half else 2.0
        return (0.5 * scale) * (residual * residual), scale * residual

    def value_and_slope(self, z: Array, y: Array, w: Array) -> tuple[Array, Array]:
        """Return ``sum_b w_b loss_b`` (K,) and its derivatives (1, K, B) by scores (1, K, B).

        Same as in `LinearModel` with fewer passes over the rows, for small problems.
        """
        residual = z[0]
        residual -= y
        slope = w * residual
        value: Array = np.vecdot(slope, residual)
        if self.half:
            value *= 0.5
        else:
            slope *= 2.0
        return value, slope[None]

    def near(self, x0: Array, batch: Batch) -> Oracle:
        """Return value and gradient from their exact expansion at x0, if that is cheaper.

        With few columns, one product with the Hessian, which is cached across rounds, replaces two
        products with the rows.
        """
        quadratic = _tall(batch) and not self.nonconvex
        return _Expansion(self, x0, batch) if quadratic else super().near(x0, batch)

    def data_hessian(self, x: Array, batch: Batch) -> Array:
        """Return ``sum_b w_b a_b a_b'`` (K, p, p), or twice that, exactly symmetric."""
        hessian = batch.gram if _tall(batch) else gram(batch.w, batch.X)
        return hessian * (1.0 if self.half else 2.0)

    def curvatures(self, z: Array, y: Array) -> Array:
        """Return 1, or 2 without `half`."""
        return np.full_like(z, 1.0 if self.half else 2.0)

    def predict(self, x: Array, X: Array) -> Array:
        """Return ``a'x`` for every row, (K, B)."""
        return scores(x, X)

    def picture(self, x: Array, X: Array, y: Array) -> Picture | None:
        """Return the points and the line if there is one feature, else the predictions."""
        if len(x) - self.intercept != 1:
            return super().picture(x, X, y)
        ends = np.array([X[:, 0].min(), X[:, 0].max()])
        offset = x[1] if self.intercept else 0.0
        curve = np.stack([ends, x[0] * ends + offset], axis=1)
        text = f"the line y = {x[0]:.3g} x"
        if self.intercept:
            text += f" {'-' if offset < 0 else '+'} {abs(offset):.3g}"
        return Picture.of_curve(np.stack([X[:, 0], y], axis=1), curve, text)


class _Expansion:
    """The quadratic objective on one batch, expanded around x0 (K, p).

    With u = x - x0 and the Hessian H it equals ``F(x0) + u'(g + H u / 2)``, its gradient ``g + H
    u``. Products with u instead of x avoid cancellation near an optimum.
    """

    def __init__(self, problem: LeastSquares, x0: Array, batch: Batch) -> None:
        self.scale = 1.0 if problem.half else 2.0
        self.x0, self.batch = np.ascontiguousarray(x0), batch  # one model for all is slower
        self.value, self.gradient = problem.value_and_gradient(x0, batch)
        self.moved = False

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """Return value (K,) and gradient (K, p) at x (K, p), new arrays."""
        u = x - self.x0
        self.moved = self.moved or bool(u.any())
        if not self.moved:  # a single step needs no Hessian
            return self.value.copy(), self.gradient.copy()
        change = (self.batch.gram @ u[:, :, None])[:, :, 0]
        if self.scale != 1.0:
            change *= self.scale
        if self.batch.ridge is not None:
            change += self.batch.ridge * u
        gradient = self.gradient + change
        change *= 0.5
        change += self.gradient
        return self.value + np.vecdot(u, change), gradient


def _tall(batch: Batch) -> bool:
    """Whether clients have more rows than columns, and few columns."""
    rows, columns = batch.X.shape[1:]
    return bool(columns <= _SHORT and rows > columns)
