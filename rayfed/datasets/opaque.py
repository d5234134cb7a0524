"""Shards of opaque clients, known by the size of their data alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rayfed.core.arrays import Array, Ints
from rayfed.core.errors import RayfedError
from rayfed.datasets.shards import PARTS, Shards


@dataclass(frozen=True, eq=False)
class OpaqueShards(Shards):
    """Shards of opaque clients.

    A client has one row for each part of its data, which stands for all its examples: X holds the
    client's id and the number of the part, y the number of examples.

    Parameters
    ----------
    counts : mapping of str to (N,) array of int
        Number of examples of every client in "train" and "test".
    dtype : numpy.dtype
        Type of the model.
    """

    counts: dict[str, Ints]
    dtype: np.dtype[Any]
    features = 2
    classes = 0
    shape = (2,)

    @property
    def clients(self) -> int:  # type: ignore[override]
        """Number N of clients."""
        return len(self.counts["train"])

    def sizes(self, ids: Ints, part: str = "train") -> Ints:
        """Return the number of examples n_i of each client (K,)."""
        return self.counts[part][ids] if part in self.counts else np.zeros_like(ids)

    def widths(self, ids: Ints, part: str = "train") -> Ints:
        """Return 1 for each client (K,)."""
        return np.ones_like(ids)

    def rows(self, ids: Ints, width: int, part: str = "train") -> tuple[Array, Array]:
        """Return the row of each client, X (K, 1, 2) and y (K, 1)."""
        X = np.stack([ids, np.full_like(ids, PARTS.index(part))], axis=1).astype(np.float64)
        return X[:, None, :], self.sizes(ids, part).astype(np.float64)[:, None]

    def take(self, ids: Ints, index: Ints) -> tuple[Array, Array]:
        """Refuse to choose among examples.

        Raises
        ------
        RayfedError
            Always.
        """
        raise RayfedError("own code has no rows; choose a method that takes no minibatches")

    def total(self, part: str = "train") -> int:
        """Return the number n of examples over all clients."""
        return int(self.sizes(np.arange(self.clients), part).sum())
