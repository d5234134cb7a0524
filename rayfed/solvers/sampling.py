"""Sampling of rows: minibatches keyed by seed, client, round and ask, and evaluated rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.rng import Draw, Key, part_of

How: TypeAlias = Literal["replacement", "shuffle"]

_CHUNK = 2**17  # draws held at once; the numbers drawn do not depend on it
_LOW = np.uint64(2**32 - 1)
_SHIFT = np.uint64(32)


@dataclass(frozen=True)
class Minibatch:
    """Rows of a local step.

    Parameters
    ----------
    size : int
        Rows B.
    how : "replacement" or "shuffle"
        How they are drawn; see `Sampling`.
    """

    size: int
    how: How


@dataclass(frozen=True)
class Sampling:
    """The draws of minibatches of K clients in a task.

    Parameters
    ----------
    wanted : Minibatch
        With "replacement" rows are independent uniform draws. With "shuffle" there is a fresh
        random order of the client's rows for every pass over them, cut into batches of which the
        last may be short.
    steps : (K,) array of int
        Steps of each client, not increasing: those with steps left are always the first k.
    ids, sizes : (K,) array of int
        Client ids and their rows n_i.
    seed, ask, stream : int
    draw : int or (K,) array of int
        Coordinates of the draws: `draw` is the round, for all clients or for each.
    """

    wanted: Minibatch
    steps: Ints
    ids: Ints
    sizes: Ints
    seed: int
    draw: Draw
    ask: int
    stream: int = 0

    def minibatches(self) -> Iterator[tuple[Ints, Floats]]:
        """Yield the rows of one local step after another.

        Yields
        ------
        index : (k, B) array of int
            Row numbers below n_i.
        w : (k, B) array of float
            1 / (rows in this minibatch), or 0 where a short batch is filled up.

        Examples
        --------
        Five rows in batches of two: a pass takes three steps, the last holds one row.

        >>> one = np.array([5])
        >>> drawn = Sampling(Minibatch(2, "shuffle"), np.array([3]), one, one, 0, 1, 0)
        >>> rows = [index[w > 0].tolist() for index, w in drawn.minibatches()]
        >>> [len(r) for r in rows], sorted(sum(rows, []))
        ([2, 2, 1], [0, 1, 2, 3, 4])
        """
        for counts, index, w in self._chunks():
            for step, k in enumerate(counts):
                yield index[step, :k], w[step, :k]

    def weights(self, rows: int, scale: Floats, dtype: npt.DTypeLike) -> Iterator[Array]:
        """Yield the weights of all rows of the clients for one local step after another.

        The minibatches are those of `minibatches`.

        Parameters
        ----------
        rows : int
            Padded rows of each client.
        scale : (K,) array of float
            Factor on the weights of each client.
        dtype : data type
            Of the weights.

        Yields
        ------
        w : (k, rows) array
            0 for rows that are not in the minibatch; rows that are in it twice count twice.
        """
        for counts, index, w in self._chunks():
            together = max(1, _CHUNK // (counts[0] * rows))
            for first in range(0, len(counts), together):
                here = slice(first, first + together)
                most = counts[first]
                added = _added_up(index[here, :most], w[here, :most], rows)
                added *= scale[:most, None]
                for k, of_rows in zip(counts[here], added.astype(dtype), strict=True):
                    yield of_rows[:k]

    def _chunks(self) -> Iterator[tuple[list[int], Ints, Floats]]:
        """Yield active clients, row indices and w (steps, k, B) for some steps at a time."""
        key, batch = Key(self.seed, "batch"), self.wanted.size
        key = key.sub(str(self.stream)) if self.stream else key
        counts = active(self.steps)
        if self.wanted.how == "shuffle":
            yield counts, *self._shuffled(key)
            return
        span = max(4, _CHUNK // (len(self.ids) * batch) // 4 * 4)  # begins at a multiple of 4 words
        for start in range(0, len(counts), span):
            here = counts[start : start + span]
            k = here[0]
            drawn = key.integers(
                self.ids[:k], self.sizes[:k], len(here) * batch,
                round=part_of(self.draw, slice(k)), ask=self.ask, start=start * batch,
            )  # fmt: skip
            index = drawn.reshape(k, len(here), batch).swapaxes(0, 1).copy()
            yield here, index, np.broadcast_to(1.0 / batch, index.shape)

    def _shuffled(self, key: Key) -> tuple[Ints, Floats]:
        """Return index and w (steps, K, B) of all steps."""
        batch, steps, sizes = self.wanted.size, self.steps, self.sizes
        shape = (int(steps.max()), len(self.ids), batch)
        index, w = np.zeros(shape, dtype=np.int64), np.zeros(shape)
        passes = -(-steps // -(-sizes // batch))
        words = key.bits(self.ids, int((passes * sizes).max()), round=self.draw, ask=self.ask)
        for n in np.unique(sizes).tolist():
            equal = np.flatnonzero(sizes == n)
            count = int(passes[equal].max())
            orders = _orders(words[equal, : count * n].reshape(len(equal), count, n))
            rows, weights = _cut(orders, batch)
            stop = min(len(rows), len(index))
            index[:stop, equal], w[:stop, equal] = rows[:stop], weights[:stop, None]
        return index, w


def active(steps: Ints) -> list[int]:
    """Return the number of clients that take each step; steps (K,) do not increase."""
    if len(steps) and steps[0] == steps[-1]:
        return [len(steps)] * int(steps[0])
    ends = np.arange(steps.max(initial=0))
    counts: list[int] = (len(steps) - np.searchsorted(steps[::-1], ends, side="right")).tolist()
    return counts


def _added_up(index: Ints, w: Floats, rows: int) -> Floats:
    """Return the weights (steps, k, rows) of all rows, where rows index (steps, k, B) weigh w."""
    steps, k, _ = index.shape
    places = index + np.arange(0, steps * k * rows, rows).reshape(steps, k, 1)
    total = np.bincount(places.ravel(), w.ravel(), steps * k * rows)
    return np.asarray(total, dtype=np.float64).reshape(steps, k, rows)


def _orders(words: npt.NDArray[np.uint64]) -> Ints:
    """Return for 32-bit words (..., n) the order of 0 ... n-1 that sorts them."""
    rows = np.arange(words.shape[-1], dtype=np.uint64)
    keys = np.sort((words << _SHIFT) | rows)  # with its row no word is equal to another
    return (keys & _LOW).astype(np.int64)


def _cut(orders: Ints, batch: int) -> tuple[Ints, Floats]:
    """Cut the passes of k clients (k, passes, n) into batches.

    Returns
    -------
    rows : (steps, k, B) array of int
    w : (steps, B) array of float
        1 / (rows in this batch), 0 where the last batch of a pass is filled up.
    """
    k, count, n = orders.shape
    width = -(-n // batch) * batch
    rows = np.zeros((k, count, width), dtype=np.int64)
    rows[:, :, :n] = orders
    real = (np.arange(width) < n).reshape(-1, batch)
    w = np.tile(real / real.sum(axis=1)[:, None], (count, 1))
    return rows.reshape(k, -1, batch).swapaxes(0, 1), w


_PADDING = np.uint64(2**32)  # above every word that is drawn


@dataclass(frozen=True)
class Subsample:
    """Says which rows of each client are looked at: the same share of everybody's.

    Parameters
    ----------
    seed : int
        Seed of the run, by which rows are drawn.
    most : int
        Rows of all evaluated clients together in a part, but for the one that every client with
        rows has at least.
    totals : mapping of str to int
        The rows of the evaluated clients, by part; see `rayfed.datasets.shards.PARTS`.

    Examples
    --------
    >>> quarter = Subsample(0, most=10, totals={"train": 40})
    >>> quarter.counts(np.array([0, 1, 9, 30]), "train").tolist()
    [0, 1, 2, 7]
    """

    seed: int
    most: int
    totals: Mapping[str, int]

    def takes_all(self, part: str) -> bool:
        """Whether all rows of a part are looked at."""
        return self.totals[part] <= self.most

    def counts(self, sizes: Ints, part: str) -> Ints:
        """Return the number of evaluated rows of clients with given numbers of rows (K,)."""
        if self.takes_all(part):
            return sizes
        return np.maximum(sizes * self.most // self.totals[part], np.minimum(sizes, 1))

    def rows(self, ids: Ints, sizes: Ints, width: int, part: str) -> tuple[Ints, Ints]:
        """Return which rows of clients are looked at.

        Parameters
        ----------
        ids, sizes : (K,) array of int
            Clients and their rows.
        width : int
            The number of rows to which all of them are padded.

        Returns
        -------
        index : (K, B) array of int
            Row numbers; B depends on the width alone, and what is beyond a client's count is 0.
        counts : (K,) array of int
            How many of them are the client's.
        """
        words = Key(self.seed, f"evaluate/{part}").bits(ids, width)
        words[np.arange(width) >= sizes[:, None]] = _PADDING
        counts = self.counts(sizes, part)
        broad = int(self.counts(np.array([width]), part)[0])
        index = np.argsort(words, axis=1, kind="stable")[:, :broad]
        index[np.arange(broad) >= counts[:, None]] = 0
        return index, counts
