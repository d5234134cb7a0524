"""Messages of nodes to their neighbours, kept by the host of their senders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rayfed.clients.store import StateRows
from rayfed.core.arrays import Array, Ints
from rayfed.topology.mixing import product

if TYPE_CHECKING:
    from scipy.sparse import csr_array


_NEARLY_ALL = 0.95
"""Share of the messages from which on all are sent: the rest costs less than a copy."""


@dataclass
class Messages:
    """Messages of the nodes of one host, from the end of their step until they are mixed.

    Attributes
    ----------
    ids : (K,) array of int
        The senders, ascending.
    rows : dict of str to (K, ...) array
        Their vectors, in memory that all steps share.
    """

    ids: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    rows: dict[str, Array] = field(default_factory=dict)

    def begin(self, ids: Ints) -> None:
        """Take messages of these nodes in place of earlier ones."""
        if len(ids) != len(self.ids):
            self.rows.clear()
        self.ids = ids

    def of(self, ids: Ints) -> StateRows:
        """Return the messages of some of the nodes; of all if nearly all are wanted."""
        if len(ids) >= _NEARLY_ALL * len(self.ids):
            return {"ids": self.ids, **self.rows}  # not copied
        places = self.ids.searchsorted(ids)
        return {"ids": ids, **{name: rows[places] for name, rows in self.rows.items()}}

    def mixed(self, w: csr_array[Any], guests: Mapping[str, Array]) -> dict[str, Array]:
        """Return the sums near(v) (K, ...) of messages, which take the memory of the messages.

        Parameters
        ----------
        w : csr_array (K, N)
            Weights at the receivers, which are the senders that live here; columns are ids.
        guests : mapping of str to array
            Messages of senders that live elsewhere, as `of` returns them.
        """
        from scipy.sparse import csr_array  # imported late, as everywhere

        ids = guests.get("ids", self.ids[:0])
        place = np.empty(w.shape[1], w.indices.dtype)
        place[self.ids] = np.arange(len(self.ids))
        place[ids] = np.arange(len(ids)) + len(self.ids)
        shape = len(self.ids), len(self.ids) + len(ids)
        here = csr_array((w.data, place[w.indices], w.indptr), shape=shape)
        for name, rows in self.rows.items():
            product(here, rows, guests.get(name, rows[:0]))
        return self.rows
