"""Generated clients that differ in features and true models."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.rng import Key
from rayfed.datasets.ondemand import Generator, normals
from rayfed.datasets.sizes import LognormalSizes, Samples

_EPS = np.finfo(np.float64).eps


@dataclass(frozen=True, kw_only=True)
class Synthetic(Generator):
    """Synthetic(alpha, beta) of FedProx, generated on demand for any number of clients.

    Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith, "Federated Optimization in Heterogeneous
    Networks", MLSys 2020, https://arxiv.org/abs/1812.06127. Client k draws u ~ N(0, alpha),
    B ~ N(0, beta), v ~ N(B, 1)^d, W ~ N(u, 1)^(c x d), b ~ N(u, 1)^c, features
    x ~ N(v, diag(j^-1.2)) and labels y = argmax(W x + b).

    Parameters
    ----------
    alpha : float
        Heterogeneity of the true models (standard deviation of u).
    beta : float
        Heterogeneity of the features (standard deviation of B).
    classes : int
        Number c of classes.

    Notes
    -----
    As in the authors' code, alpha and beta are standard deviations. The draws are keyed by client
    and differ from the authors' numbers.
    """

    name: ClassVar[str] = "synthetic"
    default_test: ClassVar[float] = 0.1

    alpha: Annotated[float, Ge(0)] = 1.0
    beta: Annotated[float, Ge(0)] = 1.0
    classes: Annotated[int, Ge(2)] = 10
    samples: Samples = field(default_factory=LognormalSizes)

    @property
    def outputs(self) -> int:
        """Number of classes."""
        return self.classes

    def draw(self, seed: int, ids: Ints, count: int, part: str) -> tuple[Array, Array]:
        """Draw rows; see `Generator.draw`."""
        key, d = Key(seed, "synthetic"), self.features
        v, W, b = self.client(seed, ids)
        X = normals(key.sub(part), ids, count * d).reshape(len(ids), count, d)
        X *= np.arange(1.0, d + 1) ** -0.6
        X += v[:, None, :]
        return X, labels(X, W, b)

    def client(self, seed: int, ids: Ints) -> tuple[Array, Array, Array]:
        """Return the feature means v (K, d), and the true models W (K, c, d) and b (K, c)."""
        d, c = self.features, self.classes
        z = normals(Key(seed, "synthetic/client"), ids, 2 + d + c * d + c)
        u, B, v, W, b = np.split(z, [1, 2, 2 + d, 2 + d + c * d], axis=1)
        u, B = self.alpha * u, self.beta * B
        return B + v, u[:, :, None] + W.reshape(-1, c, d), u + b


def labels(X: Floats, W: Floats, b: Floats) -> Ints:
    """Return the labels argmax(W x + b) (K, n) of rows X (K, n, d).

    The scores are products of single rows, so that no bit of a row depends on the number of rows.
    Products of matrices are faster and decide alike unless two scores are as close as rounding.

    Parameters
    ----------
    X : (K, n, d) array
    W : (K, c, d) array
    b : (K, c) array
    """
    scores = X @ W.swapaxes(1, 2)
    scores += b[:, None, :]
    of_row = scores.reshape(-1, W.shape[1])
    chosen: Ints = of_row.argmax(axis=1)
    largest = of_row[np.arange(len(of_row)), chosen][:, None]
    # a sum of d products errs by less than d eps times their sizes, in any order
    d = X.shape[2]
    error = (d + 2) * _EPS * (d * _size(X) * _size(W) + _size(b))
    if np.count_nonzero(of_row >= largest - 4 * error) == chosen.size:
        return chosen.reshape(X.shape[:2])
    scores = np.vecdot(X[:, :, None, :], W[:, None, :, :]) + b[:, None, :]
    return np.asarray(scores.argmax(axis=-1))


def _size(array: Floats) -> float:
    """Return the largest absolute value; NaN if there is one."""
    return float(np.maximum(array.max(initial=0.0), -array.min(initial=0.0)))


@dataclass(frozen=True, kw_only=True)
class Linear(Generator):
    """Linear regression: y = x'w_i + noise, generated on demand for any number of clients.

    Client i has features x ~ N(m_i, I) with m_i ~ N(0, shift^2 I), and weights
    w_i = w + drift N(0, I) around common weights w ~ N(0, I).

    Parameters
    ----------
    noise : float
        Standard deviation of y about x'w_i.
    shift : float
        Standard deviation of the clients' feature means.
    drift : float
        Standard deviation of the clients' weights.
    """

    name: ClassVar[str] = "linear"
    default_test: ClassVar[float] = 0.2

    features: Annotated[int, Ge(1)] = 30
    noise: Annotated[float, Ge(0)] = 0.1
    shift: Annotated[float, Ge(0)] = 0.0
    drift: Annotated[float, Ge(0)] = 0.0

    def draw(self, seed: int, ids: Ints, count: int, part: str) -> tuple[Array, Array]:
        """Draw rows; see `Generator.draw`."""
        key, d = Key(seed, "linear"), self.features
        common = normals(key.sub("weights"), np.zeros(1, np.int64), d)
        client = normals(key.sub("client"), ids, 2 * d)
        mean, w = self.shift * client[:, :d], common + self.drift * client[:, d:]
        z = normals(key.sub(part), ids, count * (d + 1)).reshape(len(ids), count, d + 1)
        X = mean[:, None, :] + z[..., :d]
        return X, np.vecdot(X, w[:, None, :]) + self.noise * z[..., d]
