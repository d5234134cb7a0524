"""Shards of a table: clients hold row numbers of shared rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.rng import Key
from rayfed.core.targets import Targets
from rayfed.datasets.base import Table
from rayfed.datasets.shards import EXACT_SIZES, PARTS, Shards, on_grid
from rayfed.datasets.split import ClientRows, Split

_CHUNK = 512


@dataclass(frozen=True)
class Rows:
    """The rows of a study, shared by all clients without copies.

    Parameters
    ----------
    X : (n, d) array
        Features in the dtype of the study, the last column 1 if there is an intercept; or bytes,
        which `take` turns into features.
    y : (n,) or (n, ...) array
        Targets in the dtype of the study, or int64 labels.
    shape : tuple of int
        Shape of the features of one row, the column of ones excluded.
    scale, shift : float or (d,) array of float64
        The features of bytes are ``X / scale - shift``.
    dtype : numpy.dtype, optional
        Of the features; that of X if None.
    """

    X: Array
    y: Array
    shape: tuple[int, ...]
    scale: float | Floats = 1.0
    shift: float | Floats = 0.0
    dtype: np.dtype[Any] | None = None

    @classmethod
    def of(cls, table: Table, *, dtype: npt.DTypeLike, intercept: bool) -> Rows:
        """Return the rows of a table in a dtype, optionally with a column of ones.

        Bytes without a column of ones stay bytes: they take a quarter or an eighth of the memory.
        """
        n, d = table.X.shape
        whole = table.classes or (table.y.ndim > 1 and table.y.dtype.kind in "iu")
        y = table.y.astype(np.int64 if whole else dtype)
        shape = table.shape or (d,)
        if table.X.dtype == np.uint8 and not intercept:
            return cls(table.X, y, shape, table.scale, table.shift, np.dtype(dtype))
        X = np.ones((n, d + intercept), dtype=dtype)
        _move(table.X, table.scale, table.shift, X[:, :d])
        return cls(X, y, shape)

    def take(self, rows: Ints) -> tuple[Array, Array]:
        """Return the features (..., d) and targets of some rows (...)."""
        X, y = self.X.take(rows, axis=0), self.y.take(rows, axis=0)
        if self.dtype is None or self.dtype == X.dtype:  # float64 is equal to None
            return X, y
        moved = np.empty(X.shape, self.dtype)
        _move(X, self.scale, self.shift, moved)
        return moved, y


def _move(X: Array, scale: float | Floats, shift: float | Floats, out: Array) -> None:
    """Write X / scale - shift, of the last axis."""
    if np.all(np.equal(scale, 1)):
        out[...] = X
    else:
        np.divide(X, scale, out=out, dtype=out.dtype)
    if np.any(shift):
        np.subtract(out, shift, out=out, dtype=out.dtype)


@dataclass(frozen=True)
class TableShards(Shards):
    """Shards of a table.

    ``dataclasses.replace(shards, table=None)`` is small and still supports `sizes`, `widths` and
    `total`; setting the table again restores the rest.

    Parameters
    ----------
    table : Rows or None
        All rows.
    split : Split
        Rows of each client.
    clients, features, classes, shape, dtype
        As in `Shards`.
    masses : (N,) array of float, optional
        Mass of each client, if the data defines it.
    target : Targets, optional
        As in `Shards`.
    """

    table: Rows | None
    split: Split
    clients: int
    features: int
    classes: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    masses: npt.NDArray[np.float64] | None = None
    target: Targets | None = None
    held: ClassVar[bool] = True

    @classmethod
    def of(
        cls,
        rows: Rows,
        split: Split,
        classes: int,
        masses: npt.NDArray[np.float64] | None = None,
    ) -> TableShards:
        """Return the shards of rows and their split."""
        dtype = rows.dtype or rows.X.dtype
        return cls(
            rows, split, split.clients, rows.X.shape[1], classes, rows.shape, dtype, masses,
            Targets.of(rows.y),
        )  # fmt: skip

    def mass(self, ids: Ints) -> npt.NDArray[np.float64]:
        """Return the mass of each client (K,)."""
        return super().mass(ids) if self.masses is None else self.masses[ids]

    def sizes(self, ids: Ints, part: str = "train") -> Ints:
        """Return the number of rows n_i of each client (K,)."""
        return self.split.part(part).sizes(ids)

    def widths(self, ids: Ints, part: str = "train") -> Ints:
        """Return the padded widths (K,): the sizes themselves if there are few distinct ones."""
        sizes = self.sizes(ids, part)
        return sizes if self._exact[part] else on_grid(sizes)

    def rows(self, ids: Ints, width: int, part: str = "train") -> tuple[Array, Array]:
        """Return all rows of clients, X (K, width, d) and y (K, width), zero-padded."""
        owned = self.split.part(part)
        column, first = np.arange(width), owned.offsets[ids][:, None]
        real = column < owned.sizes(ids)[:, None]
        if real.all():
            return self._gather(owned.rows[first + column])
        rows = np.zeros(real.shape, dtype=np.int64)
        rows[real] = owned.rows[(first + column)[real]]
        X, y = self._gather(rows)
        X[~real] = 0
        y[~real] = 0
        return X, y

    def targets(self, ids: Ints, width: int) -> Array:
        """Return the targets of all training rows of clients (K, width), zero-padded."""
        train = self.split.train
        real = np.arange(width) < train.sizes(ids)[:, None]
        at = np.where(real, train.offsets[ids][:, None] + np.arange(width), 0)
        y = self._targets(train.rows[at])
        y[~real] = 0
        return y

    def take(self, ids: Ints, index: Ints) -> tuple[Array, Array]:
        """Return chosen training rows, X (K, B, d) and y (K, B), for index (K, B) < n_i."""
        train = self.split.train
        return self._gather(train.rows[train.offsets[ids][:, None] + index])

    def total(self, part: str = "train") -> int:
        """Return the number n of rows over all clients."""
        return len(self.split.part(part).rows)

    @cached_property
    def _exact(self) -> dict[str, bool]:
        sizes = {name: np.diff(self.split.part(name).offsets) for name in PARTS}
        return {name: len(np.unique(each)) <= EXACT_SIZES for name, each in sizes.items()}

    def _gather(self, rows: Ints) -> tuple[Array, Array]:
        if self.table is None:
            raise ValueError("these shards were separated from their table")
        X, y = self.table.take(rows)
        return X, self._flipped(rows, y)

    def _targets(self, rows: Ints) -> Array:
        if self.table is None:
            raise ValueError("these shards were separated from their table")
        return self._flipped(rows, self.table.y.take(rows, axis=0))

    def _flipped(self, rows: Ints, y: Array) -> Array:
        if self.split.flipped is None:
            return y
        return np.where(self.split.flipped[rows], self.classes - 1 - y, y)


def server_test(table: Table, *, dtype: npt.DTypeLike, intercept: bool) -> TableShards | None:
    """Return the server's test rows, or None.

    They form part "test" of pseudo-clients of at most 512 rows each, so that they are evaluated by
    the same kernels as clients, in pieces that fit the cache.
    """
    if table.test is None:
        return None
    rows = Rows.of(table.test, dtype=dtype, intercept=intercept)
    return TableShards.of(rows, _in_pieces(np.arange(len(rows.y))), table.classes)


def some_of(test: TableShards, most: int, key: Key) -> TableShards:
    """Return at most so many of the server's test rows, drawn uniformly, without their table."""
    total = test.total("test")
    if total <= most:
        return test
    chosen = np.sort(test.split.test.rows[key.permutation(total)(np.arange(most))])
    split = _in_pieces(chosen)
    return replace(test, split=split, clients=split.clients)


def _in_pieces(rows: Ints) -> Split:
    """Return test rows (n,) as those of pseudo-clients."""
    n = len(rows)
    pieces = np.append(np.arange(0, n, _CHUNK), n)
    empty = ClientRows(np.zeros(0, np.int64), np.zeros_like(pieces))
    return Split(train=empty, test=ClientRows(rows, pieces))


def centralised(shards: Shards) -> TableShards:
    """Return the same rows assigned to a single client, in the order of the clients."""
    table = shards if isinstance(shards, TableShards) else _generated(shards)
    train, test, validation = (table.split.part(name).centralised() for name in PARTS)
    split = replace(table.split, train=train, test=test, validation=validation)
    return replace(table, split=split, clients=1, masses=None)


def _generated(shards: Shards) -> TableShards:
    """Generate all rows as a table."""
    blocks = [block for part in PARTS for block in _blocks(shards, part)]
    X = np.concatenate([X for X, _ in blocks])
    y = np.concatenate([y for _, y in blocks])
    ends = np.cumsum([0, *(shards.total(part) for part in PARTS)]).tolist()
    train, test, validation = (
        ClientRows(np.arange(first, last), np.array([0, last - first]))
        for first, last in itertools.pairwise(ends)
    )
    split = Split(train, test, validation=validation)
    return TableShards.of(Rows(X, y, shards.shape), split, shards.classes)


def _blocks(shards: Shards, part: str, count: int = 1024) -> Iterator[tuple[Array, Array]]:
    for first in range(0, shards.clients, count):
        ids = np.arange(first, min(first + count, shards.clients))
        sizes = shards.sizes(ids, part)
        X, y = shards.rows(ids, int(sizes.max()), part)
        real = np.arange(X.shape[1]) < sizes[:, None]
        yield X[real], y[real]
