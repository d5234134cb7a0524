"""Which rows a minibatch holds: keyed by seed, client, round and ask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from rayfed.rng import Key

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
How: TypeAlias = Literal["replacement", "shuffle"]

_CHUNK = 2**17  # draws held at once; the numbers drawn do not depend on it
_LAST = np.uint64(2**32)  # sorts behind every random word
_SHIFT = np.uint64(32)


def minibatches(
    how: How,
    batch: int,
    steps: Ints,
    *,
    ids: Ints,
    sizes: Ints,
    seed: int,
    round: int,
    ask: int,
) -> Iterator[tuple[Ints, Floats]]:
    """Yield the rows of one local step after another.

    Parameters
    ----------
    how : "replacement" or "shuffle"
        Independent uniform draws; or a fresh random order of the client's rows for every pass
        over them, cut into batches of which the last may be short.
    batch : int
        Width B of a minibatch.
    steps : (K,) array of int
        Steps of each client, not increasing: those still at work are always the first k.
    ids, sizes : (K,) array of int
        Client ids and their rows n_i.
    seed, round, ask : int
        Coordinates of the draws.

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
    >>> steps = minibatches(
    ...     "shuffle", 2, np.array([3]), ids=one, sizes=one, seed=0, round=1, ask=0
    ... )
    >>> rows = [index[w > 0].tolist() for index, w in steps]
    >>> [len(r) for r in rows], sorted(sum(rows, []))
    ([2, 2, 1], [0, 1, 2, 3, 4])
    """
    key = Key(seed, "batch")
    counts = active(steps)
    if how == "shuffle":
        index, w = _shuffled(key, batch, len(counts), ids, sizes, round, ask)
        for step, k in enumerate(counts):
            yield index[step, :k], w[step, :k]
        return
    w = np.full((len(ids), batch), 1.0 / batch)
    span = max(4, _CHUNK // (len(ids) * batch) // 4 * 4)  # a chunk begins at a multiple of 4 words
    for start in range(0, len(counts), span):
        here = counts[start : start + span]
        k = here[0]
        words = key.bits(ids[:k], len(here) * batch, round=round, ask=ask, start=start * batch)
        index = _below(words, sizes[:k]).reshape(k, len(here), batch).swapaxes(0, 1).copy()
        for step, k in enumerate(here):
            yield index[step, :k], w[:k]


def active(steps: Ints) -> list[int]:
    """Return for each step how many clients take it; steps (K,) do not increase."""
    ends = np.arange(steps.max(initial=0))
    counts: list[int] = (len(steps) - np.searchsorted(steps[::-1], ends, side="right")).tolist()
    return counts


def _below(words: npt.NDArray[np.uint64], sizes: Ints) -> Ints:
    """Return 32-bit words (K, count) as integers in [0, n_i)."""
    return ((words * sizes.astype(np.uint64)[:, None]) >> _SHIFT).astype(np.int64)


def _shuffled(
    key: Key, batch: int, steps: int, ids: Ints, sizes: Ints, round: int, ask: int
) -> tuple[Ints, Floats]:
    """Return index and w (steps, K, B) of all steps, each pass under a key of its own."""
    per_pass = -(-sizes // batch)
    index = np.zeros((steps, len(ids), batch), dtype=np.int64)
    w = np.zeros((steps, len(ids), batch))
    for number in range(-(-steps // int(per_pass.min()))):
        start = number * per_pass
        need = np.flatnonzero(start < steps)
        order = _orders(key.sub(str(number)), ids[need], sizes[need], round, ask)
        for slot in range(int(per_pass[need].max())):
            some = (slot < per_pass[need]) & (start[need] + slot < steps)
            who = need[some]
            rows = np.arange(slot * batch, (slot + 1) * batch)
            real = rows < sizes[who][:, None]
            chosen = order[some][:, np.minimum(rows, order.shape[1] - 1)]
            index[start[who] + slot, who] = np.where(real, chosen, 0)
            w[start[who] + slot, who] = real / real.sum(axis=1)[:, None]
    return index, w


def _orders(key: Key, ids: Ints, sizes: Ints, round: int, ask: int) -> Ints:
    """Return a random order of each client's rows (K, max n_i); beyond n_i it means nothing."""
    words = key.bits(ids, int(sizes.max()), round=round, ask=ask)
    words = np.where(np.arange(words.shape[1]) < sizes[:, None], words, _LAST)
    return np.argsort(words, axis=1, kind="stable")
