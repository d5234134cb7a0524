"""The state that clients keep between rounds, beside the clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from rayfed.core.arrays import Array, Ints


@dataclass
class Store:
    """Client state: one growing array a name, a row for every client that was touched.

    Parameters
    ----------
    initial : mapping of str to array
        First row of each array.
    slots : dict of int to int
        The row of each client that was touched.
    rows : dict of str to array
        The rows, and room for more.
    dirty : set of int
        Clients whose rows changed since the last call of `changed`.
    """

    initial: Mapping[str, Array]
    slots: dict[int, int] = field(default_factory=dict)
    rows: dict[str, Array] = field(default_factory=dict)
    dirty: set[int] = field(default_factory=set)

    def get(self, ids: Ints) -> dict[str, Array]:
        """Return the rows of clients, their first value where they were never touched."""
        slots = [self.slots.get(i, -1) for i in ids.tolist()]
        fresh = np.array([s < 0 for s in slots])
        out = {}
        for name, first in self.initial.items():
            shape = (len(ids), *first.shape)
            rows = self.rows[name][slots] if self.slots else np.empty(shape, first.dtype)
            rows[fresh] = first
            out[name] = rows
        return out

    def put(self, ids: Ints, values: Mapping[str, Array]) -> None:
        """Replace the rows of clients; names that are not given keep their value."""
        current = self.get(ids)
        for i in ids.tolist():
            self.slots.setdefault(i, len(self.slots))
        slots = [self.slots[i] for i in ids.tolist()]
        for name, first in self.initial.items():
            self._reserve(name, first)
            self.rows[name][slots] = values.get(name, current[name])
        self.dirty.update(ids.tolist())

    def _reserve(self, name: str, first: Array) -> None:
        """Make room for a row of every client that has a slot."""
        rows = self.rows.get(name, np.empty((0, *first.shape), first.dtype))
        if len(rows) < len(self.slots):
            grown = np.empty((max(8, 2 * len(self.slots)), *first.shape), first.dtype)
            grown[: len(rows)] = rows
            rows = grown
        self.rows[name] = rows

    def changed(self) -> dict[str, Array]:
        """Return ids and rows that changed since the last call, ids ascending."""
        ids = np.array(sorted(self.dirty), dtype=np.int64)
        self.dirty.clear()
        return {"ids": ids, **(self.get(ids) if len(ids) else {})}
