"""Access to the rows of each client, from a table that is split or from a generator."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from rayfed.core.arrays import Array, Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.files import check_room
from rayfed.core.targets import Targets

PARTS = ("train", "test", "validation")
"""What the rows of a client are for; those of the last two are held out."""


class Shards(Protocol):
    """The rows of every client, looked up or generated when they are needed.

    All methods are pure and vectorised over client ids. ``part`` is one of `PARTS`.
    Padded rows are zero (y = 0).

    Attributes
    ----------
    clients : int
        Number N of clients.
    features : int
        Columns d of X, including the column of ones if there is an intercept.
    classes : int
        Number of classes, 0 for regression.
    shape : tuple of int
        Shape of the features of one row, the column of ones excluded: (C, H, W) for images,
        (d,) for other rows. X is flat nevertheless.
    dtype : numpy.dtype
        Type of X, and of y for regression; labels are int64.
    held : bool
        Whether all rows are in memory, and not made when they are asked for.
    """

    clients: int
    features: int
    classes: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    held: ClassVar[bool] = False

    @property
    def target(self) -> Targets | None:
        """Targets that are not one label or number a row: y is (K, width, ...), and classes 0."""
        return None

    @property
    def moves_sizes(self) -> bool:
        """Whether the sizes of clients change over rounds."""
        return False

    def at(self, round: int) -> Shards:
        """Return the shards of a round, from 1, where rows change; these where they do not."""
        return self

    @property
    def version(self) -> Hashable:
        """Identity of these rows, unique as long as these shards exist."""
        return id(self)

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

    def targets(self, ids: Ints, width: int) -> Array:
        """Return the targets of all training rows of clients (K, width), zero-padded."""
        return self.rows(ids, width)[1]

    def take(self, ids: Ints, index: Ints) -> tuple[Array, Array]:
        """Return chosen training rows, X (K, B, d) and y (K, B), for index (K, B) < n_i."""
        ...

    def total(self, part: str = "train") -> int:
        """Return the number n of rows over all clients."""
        ...

    @property
    def totals(self) -> tuple[int, float]:
        """The number n of training rows over all clients, and their total mass."""
        return self.total(), float(self.mass(np.arange(self.clients)).sum())


class OfLastClients:
    """Arrays of the clients that were asked for last, from one minibatch to the next.

    They are of no consequence for results, and do not travel to other processes.
    """

    def __init__(self) -> None:
        self._made: dict[str, tuple[Ints, tuple[Array, ...]]] = {}

    def get(
        self, name: str, ids: Ints, make: Callable[[], tuple[Array, ...]], width: int = 0
    ) -> tuple[Array, ...]:
        """Return arrays (K, ...), at least so wide, of clients (K,); made if they are not there."""
        k, (known, arrays) = len(ids), self._made.get(name, (None, ()))
        # solvers drop finished clients from the end, so a prefix is a cache hit
        cached = known is not None and np.array_equal(known[:k], ids)
        if not cached or (width and arrays[0].shape[1] < width):
            arrays = make()
            self._made[name] = ids.copy(), arrays
        return tuple(array[:k] for array in arrays)

    def __reduce__(self) -> tuple[type[OfLastClients], tuple[()]]:
        return type(self), ()


def label_counts(shards: Shards, ids: Ints | None = None) -> Ints:
    """Return the number of training rows of each client and label (K, classes).

    Rows are read once, a block of clients of similar size at a time.

    Parameters
    ----------
    shards : Shards
        Rows with labels.
    ids : (K,) array of int, optional
        Which clients; all if None.

    Raises
    ------
    ScenarioError
        If that would take long, since the rows are not in memory but have to be made.
    """
    rows = shards.total() if ids is None else int(shards.sizes(ids).sum())
    if not shards.held and rows * shards.features > MOST_MADE:
        text = f"found {rows:,} rows of {shards.features} columns"
        raise ScenarioError("", f"{text} to be made to know their labels; use fewer clients")
    ids = np.arange(shards.clients) if ids is None else ids
    size, what = 8 * len(ids) * shards.classes, f"counts of {shards.classes:,} labels"
    check_room(size, "problem.dataset", f"{what} of {len(ids):,} clients", "use fewer of either")
    counts = np.zeros((len(ids), shards.classes), dtype=np.int64)
    sizes = shards.sizes(ids)
    by_size = np.argsort(sizes, kind="stable")
    for places in _blocks(by_size, sizes[by_size] * shards.features):
        y = shards.targets(ids[places], int(sizes[places].max()))
        client, row = np.nonzero(np.arange(y.shape[1]) < sizes[places][:, None])
        np.add.at(counts, (places[client], y[client, row]), 1)
    return counts


def label_sets(shards: Shards) -> Ints:
    """Return an index 0, 1, ... of the set of training labels of each client (N,)."""
    _, number = np.unique(label_counts(shards) > 0, axis=0, return_inverse=True)
    return np.asarray(number).ravel()


def label_ranks(counts: Ints) -> Ints:
    """Return the rank (N,) of each client, ordered by most frequent label, then id.

    Parameters
    ----------
    counts : (N, classes) array of int
        As `label_counts` returns them.
    """
    order = np.argsort(counts.argmax(axis=1), kind="stable")
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    return ranks


def _blocks(ids: Ints, numbers: Ints) -> Iterator[Ints]:
    """Yield blocks of clients, given in ascending order of their numbers (K,)."""
    first = 0
    while first < len(ids):
        padded = np.arange(1, len(ids) - first + 1) * numbers[first:]
        count = max(1, int(np.searchsorted(padded, _BLOCK, side="right")))
        yield ids[first : first + count]
        first += count


MOST_MADE = 2**26
"""Numbers of rows that are made to know their labels, at most: it takes some seconds."""
_BLOCK = 2**22  # numbers that are read together
_GRID = np.array(sorted({8, *(2**k for k in range(3, 48)), *(3 * 2**k for k in range(2, 47))}))


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
