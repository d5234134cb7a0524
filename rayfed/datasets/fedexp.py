"""The synthetic over-parameterised regression of the FedExP paper, reproduced exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Gt

from rayfed.core.arrays import Array
from rayfed.datasets.base import Dataset, Source, Table


@dataclass(frozen=True, kw_only=True)
class FedExPRegression(Dataset):
    """Over-parameterised linear regression: one model fits the rows of every client exactly.

    Jhunjhunwala, Wang, Joshi, "FedExP: Speeding Up Federated Averaging via Extrapolation", ICLR
    2023, https://arxiv.org/abs/2301.09604: generated as in the authors' code, with NumPy's legacy
    generator, so that a seed reproduces their numbers (they use 0). Client i draws a feature mean
    v_i ~ N(B_i, 1)^d with B_i ~ N(0, beta), weights W_i ~ N(u_i, 1)^d with u_i ~ N(0, alpha), rows
    of X_i ~ N(v_i, I) and y_i = X_i W_i, without noise; then each row of X_i is scaled to norm 1,
    and after that y_i to norm 1. (alpha and beta are standard deviations.)

    At x = 0 the sum of squares over all rows is the number of clients, so the published
    F = ||A x - b||^2 / clients starts at 1.

    Parameters
    ----------
    clients : int
        Number of clients, set by the data.
    samples : int
        Rows of each client.
    features : int
        Number d of features.
    alpha, beta : float
        Heterogeneity of weights and of features between clients.
    """

    name: ClassVar[str] = "fedexp-regression"
    random: ClassVar[bool] = True

    clients: Annotated[int, Ge(1)] = 20
    samples: Annotated[int, Ge(1)] = 30
    features: Annotated[int, Ge(1)] = 1000
    alpha: Annotated[float, Gt(0)] = 0.1
    beta: Annotated[float, Gt(0)] = 0.1

    def load(self, source: Source, seed: int) -> Table:
        """Return the rows of all clients, one client after the other."""
        stream = np.random.RandomState(self.seeded(seed))
        # same generator and order of draws as the authors, to reproduce their numbers
        u = stream.normal(0.0, self.alpha, self.clients)
        B = stream.normal(0.0, self.beta, self.clients)
        v = [stream.normal(b, 1.0, self.features) for b in B]
        parts = [self._client(stream, u[i], v[i]) for i in range(self.clients)]
        return Table(
            np.concatenate([X for X, _ in parts]),
            np.concatenate([y for _, y in parts]),
            names=tuple(f"x{j}" for j in range(self.features)),
            client=np.repeat(np.arange(self.clients), self.samples),
        )

    def _client(self, stream: np.random.RandomState, u: float, v: Array) -> tuple[Array, Array]:
        W = stream.normal(u, 1.0, self.features)
        X = multivariate_normal(stream, v, self.samples)
        y = X @ W
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        return X, y / np.linalg.norm(y)


def multivariate_normal(stream: np.random.RandomState, mean: Array, count: int) -> Array:
    """Draw rows (count, d) from N(mean, I) as ``stream.multivariate_normal(mean, I, count)`` does.

    NumPy decomposes the covariance in each call, a third of a second at d = 1000. The singular
    vectors of I are I itself, so the standard normal draws need only be shifted.
    """
    return stream.standard_normal(count * len(mean)).reshape(count, len(mean)) + mean
