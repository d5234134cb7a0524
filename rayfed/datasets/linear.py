"""Synthetic linear regression with heterogeneous clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from rayfed.core.arrays import Array, Ints
from rayfed.core.rng import Key
from rayfed.datasets.ondemand import Generator, normals


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
