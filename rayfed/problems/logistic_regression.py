"""Linear models: losses of one score ``a'x`` per row, as of logistic regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from rayfed.core.arrays import Array, Ints
from rayfed.numerics.power import largest_eigenvalues
from rayfed.problems.base import Batch, gram
from rayfed.problems.layers import Layer
from rayfed.problems.nonconvex import Regularised


@dataclass(frozen=True, kw_only=True)
class LinearModel(Regularised):
    """Base of losses of a score ``z = a'x``; subclasses implement `losses` and `curvatures`.

    The coordinates of x (p = d) are the columns of X; with an intercept, the last is the intercept.
    """

    @property
    def curvature_bounds(self) -> tuple[float, float] | None:
        """Lower and upper bound of `curvatures`; None if unknown."""
        return None

    def losses(self, z: Array, y: Array) -> tuple[Array, Array]:
        """Return loss and d loss / dz, new arrays (K, B), for scores z and targets y (K, B)."""
        raise NotImplementedError

    def curvatures(self, z: Array, y: Array) -> Array:
        """Return d^2 loss / dz^2 >= 0, (K, B)."""
        raise NotImplementedError

    def size(self, features: int, classes: int) -> int:
        """Return p = d."""
        return features

    def layers(self, features: int, classes: int) -> tuple[Layer, ...]:
        """Return the weights, and the intercept if there is one."""
        if not self.intercept:
            return super().layers(features, classes)
        return Layer("weight", 0, features - 1), Layer("bias", features - 1, features)

    def intercepts(self, features: int, p: int) -> Ints:
        """Return the last coordinate if there is an intercept."""
        return np.arange(features - 1 if self.intercept else features, features)

    def linear_scores(self, classes: int) -> int | None:
        """Return 1; None with a nonconvex term, which has a slope outside the span of rows."""
        return None if self.nonconvex else 1

    def value_and_slope(self, z: Array, y: Array, w: Array) -> tuple[Array, Array]:
        """Return ``sum_b w_b loss_b`` (K,) and its derivatives (1, K, B) by scores (1, K, B)."""
        loss, slope = self.losses(z[0], y)
        slope *= w
        return np.vecdot(w, loss), slope[None]

    def data_value(self, x: Array, batch: Batch) -> Array:
        """Return ``sum_b w_b loss_b`` (K,)."""
        value: Array = np.vecdot(batch.w, self.losses(scores(x, batch.X), batch.y)[0])
        return value

    def data_value_and_gradient(self, x: Array, batch: Batch) -> tuple[Array, Array]:
        """Return ``sum_b w_b loss_b`` (K,) and its gradient (K, p)."""
        value, slope = self.value_and_slope(scores(x, batch.X)[None], batch.y, batch.w)
        return value, combine(slope[0], batch.X)

    def data_hessian(self, x: Array, batch: Batch) -> Array:
        """Return ``sum_b w_b loss_b'' a_b a_b'`` (K, p, p), exactly symmetric."""
        return gram(batch.w * self.curvatures(scores(x, batch.X), batch.y), batch.X)

    def data_curvature(self, batch: Batch) -> tuple[Array, Array] | None:
        """Return `curvature_bounds` times extreme eigenvalues of ``sum_b w_b a_b a_b'`` (K,)."""
        bounds = self.curvature_bounds
        if bounds is None:
            return None
        eigenvalues = np.maximum(np.linalg.eigvalsh(gram(batch.w, batch.X)), 0.0)
        return bounds[0] * eigenvalues[:, 0], bounds[1] * eigenvalues[:, -1]

    def data_smoothness(self, batch: Batch) -> Array | None:
        """Return the upper of `curvature_bounds` times the largest eigenvalue (K,), iterated."""
        bounds = self.curvature_bounds
        return None if bounds is None else bounds[1] * largest_eigenvalues(batch.w, batch.X)

    def data_hvp(self, x: Array, v: Array, batch: Batch) -> Array:
        """Return ``sum_b w_b loss_b'' (a_b'v) a_b`` (K, p)."""
        curvature = batch.w * self.curvatures(scores(x, batch.X), batch.y)
        return combine(curvature * scores(v, batch.X), batch.X)


def scores(x: Array, X: Array) -> Array:
    """Return ``a'x`` for every row, (K, B), as a new array."""
    z: Array = (X @ x[:, :, None])[:, :, 0]
    return z


def combine(s: Array, X: Array) -> Array:
    """Return ``sum_b s_b a_b`` (K, d) for coefficients s (K, B)."""
    total: Array = (s[:, None, :] @ X)[:, 0]
    return total


@dataclass(frozen=True, kw_only=True)
class LogisticRegression(LinearModel):
    """Logistic regression: the loss of a row (a, y), y 0 or 1, is ``log(1 + e^z) - y z``, z = a'x.

    With default settings F_i is the mean over the client's n_i rows of the log-loss (natural
    logarithm), and F the mean over all n rows. Large scores do not overflow.

    Examples
    --------
    At x = 0 every loss is log 2:

    >>> from rayfed.problems.base import Batch
    >>> batch = Batch(np.array([[[1.0, 2.0]]]), np.array([[1]]), np.ones((1, 1)), None)
    >>> LogisticRegression().value(np.zeros((1, 2)), batch).round(6).tolist()
    [0.693147]
    """

    name: ClassVar[str] = "logistic-regression"
    task: ClassVar[Literal["regression", "binary", "multiclass"]] = "binary"

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        """0, the limit for large scores, and 1/4, attained at score 0."""
        return 0.0, 0.25

    def losses(self, z: Array, y: Array) -> tuple[Array, Array]:
        """Return ``log(1 + e^z) - y z`` and ``sigma(z) - y``."""
        target = y.astype(z.dtype, copy=False)
        softplus = np.logaddexp(0.0, z)
        slope = np.exp(z - softplus)  # sigma(z) = e^z / (1 + e^z)
        slope -= target
        softplus -= target * z
        return softplus, slope

    def curvatures(self, z: Array, y: Array) -> Array:
        """Return ``sigma(z) (1 - sigma(z)) = e^(z - 2 log(1 + e^z))``."""
        curvature: Array = np.exp(z - 2.0 * np.logaddexp(0.0, z))
        return curvature

    def predict(self, x: Array, X: Array) -> Array:
        """Return 1 where the score is positive, else 0, (K, B)."""
        return (scores(x, X) > 0).astype(np.int64)

    def scores(self, x: Array, X: Array) -> Array:
        """Return the scores 0 and ``a'x`` of the classes, (K, B, 2)."""
        z = scores(x, X)
        return np.stack([np.zeros_like(z), z], axis=-1)
