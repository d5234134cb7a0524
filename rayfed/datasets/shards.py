"""Access to the rows of each client, from a table that is split or from a generator."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from rayfed.core.arrays import Array, Ints


class Shards(Protocol):
    """The rows of every client, looked up or generated when they are needed.

    All methods are pure and vectorised over client ids. ``part`` is "train" or "test"
    (held out). Padded rows are zero (y = 0).

    Attributes
    ----------
    clients : int
        Number N of clients.
    features : int
        Columns d of X, including the column of ones if there is an intercept.
    classes : int
        Number of classes, 0 for regression.
    dtype : numpy.dtype
        Type of X, and of y for regression; labels are int64.
    """

    clients: int
    features: int
    classes: int
    dtype: np.dtype[Any]

    def sizes(self, ids: Ints, part: str = "train") -> Ints:
        """Return the number of rows n_i of each client (K,)."""
        ...

    def mass(self, ids: Ints) -> npt.NDArray[np.float64]:
        """Return the mass of each client (K,): its training rows unless the data defines it."""
        return self.sizes(ids).astype(np.float64)

    def widths(self, ids: Ints, part: str = "train") -> Ints:
        """Return the padded number of rows of each client (K,)."""
        ...

    def rows(self, ids: Ints, width: int, part: str = "train") -> tuple[Array, Array]:
        """Return all rows of clients, X (K, width, d) and y (K, width), zero-padded."""
        ...

    def take(self, ids: Ints, index: Ints) -> tuple[Array, Array]:
        """Return chosen training rows, X (K, B, d) and y (K, B), for index (K, B) < n_i."""
        ...

    def total(self, part: str = "train") -> int:
        """Return the number n of rows over all clients."""
        ...


def label_counts(shards: Shards) -> Ints:
    """Return the number of training rows of each client and label (N, classes).

    Rows are read once, a block of clients at a time.
    """
    counts = np.zeros((shards.clients, shards.classes), dtype=np.int64)
    everyone = np.arange(shards.clients)
    sizes = shards.sizes(everyone)
    block = max(1, _BLOCK // max(1, int(sizes.max()) * shards.features))
    for first in range(0, shards.clients, block):
        ids = everyone[first : first + block]
        _, y = shards.rows(ids, int(sizes[ids].max()))
        who, row = np.nonzero(np.arange(y.shape[1]) < sizes[ids][:, None])
        np.add.at(counts, (ids[who], y[who, row]), 1)
    return counts


def label_sets(shards: Shards) -> Ints:
    """Return an index 0, 1, ... of the set of training labels of each client (N,)."""
    _, number = np.unique(label_counts(shards) > 0, axis=0, return_inverse=True)
    return np.asarray(number).ravel()


def label_ranks(shards: Shards) -> Ints:
    """Return the rank (N,) of each client, ordered by most frequent label, then id."""
    order = np.argsort(label_counts(shards).argmax(axis=1), kind="stable")
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    return ranks


_BLOCK = 2**23  # numbers that are read together
_GRID = np.unique([8, *(2**k for k in range(3, 48)), *(3 * 2**k for k in range(2, 47))])


def on_grid(sizes: Ints) -> Ints:
    """Round sizes (K,) up to 8, 12, 16, 24, 32, 48, ...; 0 stays 0.

    Few distinct widths keep stacks large; padding is at most a third of the rows.

    Examples
    --------
    >>> on_grid(np.array([0, 1, 8, 9, 13, 97])).tolist()
    [0, 8, 8, 12, 16, 128]
    """
    return np.where(sizes > 0, _GRID[np.searchsorted(_GRID, sizes)], 0)


EXACT_SIZES = 8
"""Largest number of distinct sizes for which rows are not padded."""
