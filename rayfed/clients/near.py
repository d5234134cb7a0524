"""Messages of nodes to their neighbours, kept by the host of their senders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rayfed.clients.store import StateRows
from rayfed.core.arrays import Array, Ints
from rayfed.core.shared import Place, SharedArray, read
from rayfed.topology.mixing import product

if TYPE_CHECKING:
    from scipy.sparse import csr_array


_NEARLY_ALL = 0.95
"""Share of the messages from which on all are sent: the rest costs less than a copy."""


@dataclass(frozen=True)
class SharedMessages:
    """Messages of another process of this machine, in memory that this one can read.

    Parameters
    ----------
    ids : (K,) array of int
        The senders there, ascending.
    places : dict of str to Place
        Of arrays, whose first K rows are their vectors.
    wanted : (M,) array of int, optional
        Those of the senders whose messages are needed; all if None.
    """

    ids: Ints
    places: dict[str, Place]
    wanted: Ints | None = None

    def rows(self) -> StateRows:
        """Return the messages that are needed, and maybe others, without copies where possible.

        Raises
        ------
        OSError
            If that process has ended.
        """
        rows = {name: read(place)[: len(self.ids)] for name, place in self.places.items()}
        return _chosen(self.ids, rows, self.ids if self.wanted is None else self.wanted)


@dataclass
class Messages:
    """Messages of the nodes of one host, from the end of their step until they are mixed.

    Attributes
    ----------
    ids : (K,) array of int
        The senders, ascending.
    rows : dict of str to (K, ...) array
        Their vectors, in memory that all steps share.
    shared : dict of str to SharedArray
        That memory, once other processes read it.
    sums : dict of str to (K, ...) array
        Memory of the sums, which then must not take that of the messages.
    """

    ids: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    rows: dict[str, Array] = field(default_factory=dict)
    shared: dict[str, SharedArray] = field(default_factory=dict)
    sums: dict[str, Array] = field(default_factory=dict)

    def begin(self, ids: Ints) -> None:
        """Take messages of these nodes in place of earlier ones."""
        if len(ids) != len(self.ids):
            self.sums.clear()
            kept = {n: one for n, one in self.shared.items() if len(one.array) >= len(ids)}
            self.shared, self.rows = kept, {n: one.array[: len(ids)] for n, one in kept.items()}
        self.ids = ids

    def of(self, ids: Ints) -> StateRows:
        """Return the messages of some of the nodes; of all if nearly all are wanted."""
        return _chosen(self.ids, self.rows, ids)

    def share(self) -> SharedMessages:
        """Return where other processes of this machine find the messages, until the next step.

        Raises
        ------
        OSError
            If the system has no such memory.
        """
        for name in self.rows.keys() - self.shared.keys():
            self.shared[name] = SharedArray(self.rows[name].shape, self.rows[name].dtype)
            self.shared[name].array[...] = self.rows[name]
            self.rows[name] = self.shared[name].array
        return SharedMessages(self.ids, {name: one.place for name, one in self.shared.items()})

    def mixed(self, w: csr_array[Any], guests: Mapping[str, Array]) -> dict[str, Array]:
        """Return the sums near(v) (K, ...) of messages.

        They take the memory of the messages, unless other processes may be reading these.

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
        out = self.sums if self.shared else self.rows
        for name, rows in self.rows.items():
            if name not in out:
                out[name] = np.empty_like(rows)
            product(here, rows, guests.get(name, rows[:0]), out[name])
        return out


def _chosen(senders: Ints, rows: Mapping[str, Array], ids: Ints) -> StateRows:
    """Return the messages of some of the senders; of all if nearly all are wanted."""
    if len(ids) >= _NEARLY_ALL * len(senders):
        return {"ids": senders, **rows}  # not copied
    places = senders.searchsorted(ids)
    return {"ids": ids, **{name: values[places] for name, values in rows.items()}}
