"""Cache of a host between Asks: stacks of rows and their Gram matrices."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import numpy as np

from rayfed.clients.arrangement import Arranged
from rayfed.core.arrays import Array, Ints
from rayfed.problems.base import Batch

STACKS_BYTES = 2**28
GRAMS_BYTES = 2**26
_REMEMBERED = 4096  # keys; evaluations of 10,000 clients come in some thousand stacks
Value = TypeVar("Value")


class Recent(Generic[Value]):
    """The values that were asked for last, up to a bound on their bytes.

    Parameters
    ----------
    limit : int
        Bytes to keep at most.

    Attributes
    ----------
    bytes : int
        Of all values together.
    """

    def __init__(self, limit: int) -> None:
        self.limit, self.bytes = limit, 0
        self._cache: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()

    @property
    def keys(self) -> list[Hashable]:
        """The keys, least recently used first."""
        return list(self._cache)

    def get(self, key: Hashable) -> Value | None:
        """Return the value of a key, None if there is none."""
        cache = self._cache.get(key)
        if cache is None:
            return None
        self._cache.move_to_end(key)
        return cache[0]

    def keep(self, key: Hashable, value: Value, size: int) -> None:
        """Keep a value of so many bytes, in place of those that were asked for long ago."""
        self._cache[key] = value, size
        self.bytes += size
        while self.bytes > self.limit:
            self.bytes -= self._cache.popitem(last=False)[1][1]


class Stacks:
    """The stacks of rows that recur, so that full-batch rounds gather their rows once.

    A stack is kept when it is asked for a second time: cohorts that are drawn anew in every round
    hardly ever recur, and memory that is kept cannot be used again.

    Parameters
    ----------
    limit : int
        Bytes to keep at most.

    Attributes
    ----------
    cache : Recent
        The stacks.
    asked : OrderedDict
        The keys that were asked for last, of which those that recur are kept.
    grams : Grams
        Gram matrices of the rows of single clients, which have a limit of their own.
    arranged : dict of str to (key, Arrangement)
        The last request of each owner, and its arrangement.
    """

    def __init__(self, limit: int = STACKS_BYTES) -> None:
        self.cache: Recent[Batch] = Recent(limit)
        self.grams = Grams()
        self.arranged: Arranged = {}
        self.asked: OrderedDict[Hashable, None] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Batch]) -> Batch:
        """Return the batch under a key, made when it is not kept."""
        batch = self.cache.get(key)
        if batch is not None:
            return batch
        batch = make()
        if key in self.asked:
            self.cache.keep(key, batch, _size(batch))
        else:
            self.asked[key] = None
            if len(self.asked) > _REMEMBERED:
                self.asked.popitem(last=False)
        return batch


def _size(batch: Batch) -> int:
    """Return the bytes of a batch, the gram matrix that it may come to hold included."""
    return 2 * batch.X.nbytes + batch.y.nbytes + batch.w.nbytes


class Grams:
    """Inner products of the rows of single clients, those that were asked for last.

    They are kept by client, since a cohort that is drawn anew in every round never recurs.

    Parameters
    ----------
    limit : int
        Bytes to keep at most.
    """

    def __init__(self, limit: int = GRAMS_BYTES) -> None:
        self.cache: Recent[Array] = Recent(limit)

    def of(self, version: Hashable, ids: Ints, X: Array) -> Array:
        """Return ``A_i A_i'`` (K, n, n) of the rows A_i of K clients.

        Parameters
        ----------
        version : hashable
            What tells these rows from others that the clients had or will have.
        ids : (K,) array of int
            The clients.
        X : (K, n, d) array
            All their rows.
        """
        keys = [(version, i) for i in ids.tolist()]
        grams: list[Any] = [self.cache.get(key) for key in keys]
        fresh = [k for k, gram in enumerate(grams) if gram is None]
        if len(fresh) == len(keys):
            stack: Array = X @ X.swapaxes(1, 2)
            for key, gram in zip(keys, stack, strict=True):
                self.cache.keep(key, gram.copy(), gram.nbytes)  # a view would hold all of them
            return stack
        for k in fresh:
            made = grams[k] = X[k] @ X[k].T
            self.cache.keep(keys[k], made, made.nbytes)
        return np.stack(grams)
