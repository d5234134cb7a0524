"""The arrangement of a request's clients in stacks of equal shapes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np

from rayfed.clients import gram
from rayfed.clients.request import Request
from rayfed.clients.setup import Setup
from rayfed.core.arrays import Ints
from rayfed.datasets.shards import Shards

_HELD_OUT = {"evaluation": ("test", "validation"), "server": ("test",), "unseen": ("test",)}
"""Which held-out rows client functions look at, by their owner."""


class Arrangement(NamedTuple):
    """The clients of a request, arranged in stacks.

    Parameters
    ----------
    keys : (K,) array of int, optional
        Number of each client's stack: same group, same padded widths. None if there is one stack.
    order : (K,) array of int
        The clients' places by ascending id.
    ids : (K,) array of int
        Their ids in this order.
    """

    keys: Ints | None
    order: Ints
    ids: Ints

    def places(self, ids: Ints) -> Ints:
        """Return the places of some clients in the request, which are in its order."""
        if len(ids) == len(self.ids):
            return np.arange(len(ids))
        found: Ints = self.order[np.searchsorted(self.ids, ids)]
        return found

    def stacks(self, places: Ints) -> Iterator[slice | Ints]:
        """Yield which of the clients at some places (K,) of the request make a stack."""
        keys = None if self.keys is None else self.keys[places]
        if keys is None or (keys == keys[0]).all():
            yield slice(None)
            return
        for key in np.unique(keys):
            yield np.flatnonzero(keys == key)


Arranged: TypeAlias = dict[str, tuple[Hashable, Arrangement]]
"""By owner the last request that was arranged, and its arrangement."""


def arrangement(request: Request, shards: Shards, known: Arranged) -> Arrangement:
    """Return the arrangement of a request; the same clients may be asked round after round."""
    recurs = (shards.version, request.ids.tobytes(), request.groups.tobytes())
    last = known.get(request.owner)
    if last is None or last[0] != recurs:
        order = np.argsort(request.ids, kind="stable")
        made = Arrangement(_keys(request, shards), order, request.ids[order])
        last = known[request.owner] = recurs, made
    return last[1]


def _keys(request: Request, shards: Shards) -> Ints | None:
    columns = [request.groups, shards.widths(request.ids)]
    columns += [shards.widths(request.ids, part) for part in _HELD_OUT.get(request.owner, ())]
    if all(len(c) == 0 or (c == c[0]).all() for c in columns):
        return None
    _, keys = np.unique(np.stack(columns), axis=1, return_inverse=True)
    return np.asarray(keys).ravel()


def together(request: Request, setup: Setup, shards: Shards) -> int:
    """Return the number of clients per stack for the first one; only speed depends on it."""
    if request.owner == "mixing":  # without steps, which read rows again and again
        return 4 * setup.block
    if request.owner != "algorithm":
        return setup.block
    solver, i = setup.solvers[int(request.groups[0])], request.ids[0]
    fewest = gram.fewest(solver, setup.problem, shards, i, setup.p)
    if fewest is None or request.steps[0] < fewest:
        return setup.block
    return max(setup.block, gram.block(shards, i, setup.p))
