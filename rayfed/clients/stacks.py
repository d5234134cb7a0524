"""Stacks of rows that a host keeps from one Ask to the next."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

from rayfed.clients.arrangement import Arranged
from rayfed.clients.grams import Grams
from rayfed.problems.base import Batch

STACKS_BYTES = 2**28
_REMEMBERED = 4096  # keys; evaluations of 10,000 clients come in some thousand stacks


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
    grams : Grams
        Gram matrices of the rows of single clients, which have a limit of their own.
    arranged : dict of str to (key, Arrangement)
        The last request of each owner, and its arrangement.
    """

    def __init__(self, limit: int = STACKS_BYTES) -> None:
        self.limit = limit
        self.grams = Grams()
        self.arranged: Arranged = {}
        self.held: OrderedDict[Hashable, Batch] = OrderedDict()
        self.seen: OrderedDict[Hashable, None] = OrderedDict()
        self.bytes = 0

    def get(self, key: Hashable, make: Callable[[], Batch]) -> Batch:
        """Return the batch under a key, made when it is not held."""
        if key in self.held:
            self.held.move_to_end(key)
            return self.held[key]
        batch = make()
        if key in self.seen:
            self._keep(key, batch)
        else:
            self.seen[key] = None
            if len(self.seen) > _REMEMBERED:
                self.seen.popitem(last=False)
        return batch

    def _keep(self, key: Hashable, batch: Batch) -> None:
        self.held[key] = batch
        self.bytes += _size(batch)
        while self.bytes > self.limit:
            _, old = self.held.popitem(last=False)
            self.bytes -= _size(old)


def _size(batch: Batch) -> int:
    """Return the bytes of a batch, the gram matrix that it may come to hold included."""
    return 2 * batch.X.nbytes + batch.y.nbytes + batch.w.nbytes
