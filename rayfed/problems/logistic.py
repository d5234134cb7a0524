"""Logistic regression for two classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from rayfed.core.arrays import Array
from rayfed.problems.linear import LinearModel, scores


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
