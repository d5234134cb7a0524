"""Softmax regression for several classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from rayfed.core.arrays import Array, Ints
from rayfed.numerics.power import largest_eigenvalues
from rayfed.problems.base import Batch, gram
from rayfed.problems.crossentropy import (
    cross_entropy,
    cross_entropy_by_class,
    probabilities,
    sample_losses,
)
from rayfed.problems.layers import Layer
from rayfed.problems.nonconvex import Regularised


@dataclass(frozen=True, kw_only=True)
class SoftmaxRegression(Regularised):
    """Softmax regression: the loss of a row (a, y) is ``log sum_c e^{z_c} - z_y``, z_c = a'x_c.

    With default settings F_i is the mean over the client's n_i rows of the cross-entropy (natural
    logarithm), and F the mean over all n rows. The model x (p = c d) holds the d coefficients of
    class 0, then those of class 1, and so on; c follows from p and d.

    Examples
    --------
    At x = 0 with four classes every loss is log 4:

    >>> from rayfed.problems.base import Batch
    >>> batch = Batch(np.array([[[1.0, 2.0]]]), np.array([[3]]), np.ones((1, 1)), None)
    >>> SoftmaxRegression().value(np.zeros((1, 8)), batch).round(6).tolist()
    [1.386294]
    """

    name: ClassVar[str] = "softmax-regression"
    task: ClassVar[Literal["regression", "binary", "multiclass"]] = "multiclass"

    def size(self, features: int, classes: int) -> int:
        """Return p = c d."""
        return classes * features

    def layers(self, features: int, classes: int) -> tuple[Layer, ...]:
        """Return the coefficients, those of a class after those of another."""
        return (Layer("weight", 0, classes * features, shape=(classes, features)),)

    def intercepts(self, features: int, p: int) -> Ints:
        """Return the last coordinate of each class if there are intercepts."""
        return np.arange(features - 1, p, features) if self.intercept else np.arange(0)

    def linear_scores(self, classes: int) -> int | None:
        """Return c; None with a nonconvex term, which has a slope outside the span of rows."""
        return None if self.nonconvex else classes

    def value_and_slope(self, z: Array, y: Array, w: Array) -> tuple[Array, Array]:
        """Return ``sum_b w_b loss_b`` (K,) and its derivatives (c, K, B) by scores (c, K, B)."""
        return cross_entropy_by_class(z, y, w)

    def predict(self, x: Array, X: Array) -> Array:
        """Return the class of the largest score (K, B); ties go to the first."""
        return np.asarray(_scores(x, X).argmax(axis=-1), dtype=np.int64)

    def scores(self, x: Array, X: Array) -> Array:
        """Return ``a'x_c`` (K, B, c)."""
        return _scores(x, X)

    def data_value(self, x: Array, batch: Batch) -> Array:
        """Return ``sum_b w_b loss_b`` (K,)."""
        value: Array = np.vecdot(batch.w, sample_losses(_scores(x, batch.X), batch.y))
        return value

    def data_value_and_gradient(self, x: Array, batch: Batch) -> tuple[Array, Array]:
        """Return ``sum_b w_b loss_b`` (K,) and its gradient (K, p)."""
        value, slope = cross_entropy(_scores(x, batch.X), batch.y, batch.w)
        return value, _combine(slope, batch.X)

    def data_hessian(self, x: Array, batch: Batch) -> Array:
        """Return ``sum_b w_b (diag(q_b) - q_b q_b') kron a_b a_b'`` (K, p, p), q probabilities."""
        X = batch.X
        q = probabilities(_scores(x, X))
        K, _, d = X.shape
        c = q.shape[2]
        hessian = np.empty((K, c, d, c, d), dtype=q.dtype)
        for i in range(c):
            hessian[:, i, :, i, :] = gram(batch.w * q[:, :, i] * (1.0 - q[:, :, i]), X)
            for j in range(i):
                block = gram(batch.w * q[:, :, i] * q[:, :, j], X)
                hessian[:, i, :, j, :] = hessian[:, j, :, i, :] = -block
        return hessian.reshape(K, c * d, c * d)

    def data_curvature(self, batch: Batch) -> tuple[Array, Array]:
        """Return 0 and half the largest eigenvalue of ``sum_b w_b a_b a_b'`` (K,).

        The eigenvalues of ``diag(q) - q q'`` are at most 1/2, and tend to 0 for large scores.
        """
        largest = np.linalg.eigvalsh(gram(batch.w, batch.X))[:, -1]
        return np.zeros_like(largest), 0.5 * largest

    def data_smoothness(self, batch: Batch) -> Array:
        """Return half the largest eigenvalue of ``sum_b w_b a_b a_b'`` (K,), iterated."""
        half: Array = 0.5 * largest_eigenvalues(batch.w, batch.X)
        return half

    def data_hvp(self, x: Array, v: Array, batch: Batch) -> Array:
        """Return the Hessian of the data term times v (K, p) without forming it."""
        q = probabilities(_scores(x, batch.X))
        product = _scores(v, batch.X)
        product -= np.vecdot(q, product)[:, :, None]
        product *= q
        product *= batch.w[:, :, None]
        return _combine(product, batch.X)


def _scores(x: Array, X: Array) -> Array:
    """Return ``a'x_c`` (K, B, c) as a new array."""
    d = X.shape[2]
    z: Array = X @ x.reshape(len(x), -1, d).swapaxes(1, 2)
    return z


def _combine(s: Array, X: Array) -> Array:
    """Return ``sum_b s_bc a_b`` flat (K, c d) for coefficients s (K, B, c)."""
    total: Array = s.swapaxes(1, 2) @ X
    return total.reshape(len(X), -1)
