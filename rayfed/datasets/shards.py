"""Where the rows of each client come from: a table that is split, or a generator on demand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from rayfed.core.arrays import Array, Ints
from rayfed.core.errors import ScenarioError


class Shards(Protocol):
    """The rows of every client, each row with its client (promise 5: asked for, not held).

    All methods are pure and vectorised over the ids asked for. ``part`` is "train" or "test"
    (held out). Padded rows are zero (y = 0).

    Attributes
    ----------
    clients : int
        Number N of clients.
    features : int
        Columns d of X, the column of ones included where there is an intercept.
    classes : int
        Number of classes, 0 for regression.
    dtype : numpy.dtype
        Of X, and of y for regression; labels are int64.
    held : bool
        Whether all rows are in memory, and not made when they are asked for.
    """

    clients: int
    features: int
    classes: int
    dtype: np.dtype[Any]
    held: ClassVar[bool] = False

    def sizes(self, ids: Ints, part: str = "train") -> Ints:
        """Return the number of rows n_i of each client (K,)."""
        ...

    def mass(self, ids: Ints) -> npt.NDArray[np.float64]:
        """Return what each client (K,) counts for: its training rows unless the data says."""
        return self.sizes(ids).astype(np.float64)

    def widths(self, ids: Ints, part: str = "train") -> Ints:
        """Return the padded width of each client (K,); it depends on the client or the study."""
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
    """Return how many training rows of each label every client has (N, classes).

    Every row is looked at once, a block of clients at a time, clients of one size together.

    Raises
    ------
    ScenarioError
        If that would take long, since the rows are not in memory but have to be made.
    """
    if not shards.held and shards.total() * shards.features > MOST_MADE:
        text = f"found {shards.total():,} rows of {shards.features} columns"
        raise ScenarioError("", f"{text} to be made to know their labels; use fewer clients")
    counts = np.zeros((shards.clients, shards.classes), dtype=np.int64)
    sizes = shards.sizes(np.arange(shards.clients))
    by_size = np.argsort(sizes, kind="stable")
    for ids in _pieces(by_size, sizes[by_size] * shards.features):
        _, y = shards.rows(ids, int(sizes[ids].max()))
        who, row = np.nonzero(np.arange(y.shape[1]) < sizes[ids][:, None])
        np.add.at(counts, (ids[who], y[who, row]), 1)
    return counts


def label_sets(shards: Shards) -> Ints:
    """Return for every client (N,) the number 0, 1, ... of the set of labels it trains on."""
    _, number = np.unique(label_counts(shards) > 0, axis=0, return_inverse=True)
    return np.asarray(number).ravel()


def label_ranks(shards: Shards) -> Ints:
    """Return the place (N,) of every client among all, ordered by most frequent label, then id."""
    order = np.argsort(label_counts(shards).argmax(axis=1), kind="stable")
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    return ranks


def _pieces(ids: Ints, numbers: Ints) -> Iterator[Ints]:
    """Yield clients (K,), in order of their ascending numbers, as many as make a block."""
    first = 0
    while first < len(ids):
        widest = np.arange(1, len(ids) - first + 1) * numbers[first:]
        count = max(1, int(np.searchsorted(widest, _BLOCK, side="right")))
        yield ids[first : first + count]
        first += count


MOST_MADE = 2**26
"""Numbers of rows that are made to know their labels, at most: it takes some seconds."""
_BLOCK = 2**22  # numbers of rows that are looked at together
_GRID = np.unique([8, *(2**k for k in range(3, 48)), *(3 * 2**k for k in range(2, 47))])


def on_grid(sizes: Ints) -> Ints:
    """Round sizes (K,) up to 8, 12, 16, 24, 32, 48, ...; 0 stays 0.

    A few widths for all clients keep stacks large; each wastes at most a third of its rows.

    Examples
    --------
    >>> on_grid(np.array([0, 1, 8, 9, 13, 97])).tolist()
    [0, 8, 8, 12, 16, 128]
    """
    return np.where(sizes > 0, _GRID[np.searchsorted(_GRID, sizes)], 0)


EXACT_SIZES = 8
"""Studies with at most so many different sizes are not padded at all."""
