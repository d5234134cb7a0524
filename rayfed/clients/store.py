"""The state that clients keep between rounds, apart from the clients.

It is in memory up to a bound that the stores of a host share. A state that exceeds it moves to a
scratch file as a whole; what clients read is the same to the byte. The file has no name
(`tempfile.TemporaryFile`), so it ends with the process that made it, whatever ends that process.
Rows are read and written, not mapped: what the system caches of the file it can take back at any
time, and a full disk is an error in place of a signal.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from rayfed.core.arrays import Array, Ints
from rayfed.core.errors import RayfedError
from rayfed.core.machine import SCRATCH, scratch_folder

StateRows: TypeAlias = dict[str, Array]
"""State of K clients: ``ids`` (K,), and the rows (K, ...) of each array by name."""

PIECE = 2**25
"""Bytes of state that travel to and from a host at once, unless a single client has more."""
_FEWEST = 8  # rows that memory is taken for


@dataclass
class Memory:
    """The memory that the stores of a host may take together.

    Parameters
    ----------
    limit : int
        Bytes.
    taken : int
        Bytes that stores have.
    """

    limit: int
    taken: int = 0

    def change(self, taken: int, wanted: int) -> bool:
        """Change the budget of a store; return False if memory does not allow it."""
        after = self.taken - taken + wanted
        if wanted > taken and after > self.limit:
            return False
        self.taken = after
        return True


class ScratchError(RayfedError):
    """The scratch file cannot be made, written or read: the disk is full, or there is none."""

    def __init__(self, error: OSError) -> None:
        why = (error.strerror or str(error)).lower()
        super().__init__(
            f"client state does not fit its memory, and the scratch folder {scratch_folder()} "
            f"cannot be used ({why}); set {SCRATCH} to a folder with more space, or raise "
            "executor.memory_gb"
        )
        self.error = error

    def __reduce__(self) -> tuple[type[ScratchError], tuple[OSError]]:
        return type(self), (self.error,)


class Scratch:
    """A file of records; a record holds one row of each array of client state.

    Parameters
    ----------
    initial : mapping of str to array
        An array of the shape and type of a row, by name.

    Raises
    ------
    ScratchError
        If the file cannot be made; also from `read` and `write`.
    """

    def __init__(self, initial: Mapping[str, Array]) -> None:
        self.places, self.record = {}, 0
        for name, first in initial.items():
            self.places[name] = self.record
            self.record += first.nbytes
        try:
            # not buffered: rows go straight from and to their arrays
            self.file = tempfile.TemporaryFile(  # noqa: SIM115 (`close` ends it)
                buffering=0, prefix="rayfed-", dir=scratch_folder()
            )
        except OSError as error:
            raise ScratchError(error) from error

    def read(self, name: str, slot: int, row: Array) -> None:
        """Read the row of an array into a C-contiguous array."""
        rest = row.reshape(-1).view(np.uint8).data
        try:
            self.file.seek(slot * self.record + self.places[name])
            while rest:
                count = self.file.readinto(rest)
                if not count:
                    raise OSError("the file has been cut")
                rest = rest[count:]
        except OSError as error:
            raise ScratchError(error) from error

    def write(self, name: str, slot: int, row: Array) -> None:
        """Write the row of an array, from a C-contiguous array of its type."""
        rest = row.reshape(-1).view(np.uint8).data
        try:
            self.file.seek(slot * self.record + self.places[name])
            while rest:
                rest = rest[self.file.write(rest) :]
        except OSError as error:
            raise ScratchError(error) from error

    def close(self) -> None:
        """Give the disk space back."""
        self.file.close()


class StateOnUse(Mapping[str, Array]):
    """State rows of some clients by name, each read on first use.

    Parameters
    ----------
    names : sequence of str
    read : callable
        Maps a name to the rows (K, ...).
    """

    def __init__(self, names: Sequence[str], read: Callable[[str], Array]) -> None:
        self.names, self.read = names, read
        self.found: dict[str, Array] = {}

    def __getitem__(self, name: str) -> Array:
        if name not in self.found:
            if name not in self.names:
                raise KeyError(name)
            self.found[name] = self.read(name)
        return self.found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


@dataclass
class Store:
    """Client state: one growing array a name, a row for every client that was touched.

    Parameters
    ----------
    initial : mapping of str to array
        First row of each array.
    memory : Memory
        The memory that it may take, with others.
    slots : dict of int to int
        The row of each client that was touched.
    rows : dict of str to array
        The rows, and memory for more, while they are in memory.
    scratch : Scratch, optional
        Where the rows are if they do not fit the memory.
    dirty : set of int
        Clients whose rows changed since they were returned by `changed`.
    """

    initial: Mapping[str, Array]
    memory: Memory
    slots: dict[int, int] = field(default_factory=dict)
    rows: dict[str, Array] = field(default_factory=dict)
    scratch: Scratch | None = None
    dirty: set[int] = field(default_factory=set)

    @property
    def row_bytes(self) -> int:
        """Bytes of the state of one client."""
        return sum(first.nbytes for first in self.initial.values())

    def get(self, ids: Ints, names: Iterable[str] | None = None) -> dict[str, Array]:
        """Return the rows of clients, their first value where they were never touched.

        Parameters
        ----------
        ids : (K,) array of int
        names : iterable of str, optional
            Which arrays; all if None.
        """
        slots = [self.slots.get(i, -1) for i in ids.tolist()]
        wanted = self.initial if names is None else {name: self.initial[name] for name in names}
        if self.scratch is not None:
            return self._read(self.scratch, slots, wanted)
        fresh = np.array([s < 0 for s in slots])
        out = {}
        for name, first in wanted.items():
            shape = (len(ids), *first.shape)
            rows = self.rows[name][slots] if self.slots else np.empty(shape, first.dtype)
            rows[fresh] = first
            out[name] = rows
        return out

    def put(self, ids: Ints, values: Mapping[str, Array]) -> None:
        """Replace the rows of clients; names that are not given keep their value.

        Raises
        ------
        ScratchError
            If they fit neither the memory nor the disk.
        """
        new = [i for i in ids.tolist() if i not in self.slots]
        for i in new:
            self.slots[i] = len(self.slots)
        self._reserve()
        slots, fresh = ([self.slots[i] for i in some] for some in (ids.tolist(), new))
        for name, first in self.initial.items():
            if name in values:
                self._write(name, slots, values[name])
            elif fresh:
                self._write(name, fresh, np.broadcast_to(first, (len(fresh), *first.shape)))
        self.dirty.update(ids.tolist())

    def changed(self, most: int = PIECE, fewest: int = 1) -> tuple[StateRows, bool]:
        """Return ids and rows that changed since they were last returned, ids ascending.

        Parameters
        ----------
        most : int
            Bytes to return at most,
        fewest : int
            but so many clients if there are as many.

        Returns
        -------
        rows : dict of str to array
        more : bool
            Whether others have changed too.
        """
        count = max(fewest, most // max(1, self.row_bytes))
        ids = np.array(sorted(self.dirty)[:count], dtype=np.int64)
        self.dirty.difference_update(ids.tolist())
        return {"ids": ids, **(self.get(ids) if len(ids) else {})}, bool(self.dirty)

    def close(self) -> None:
        """Give back memory and disk space."""
        self._forget_rows()
        if self.scratch is not None:
            self.scratch.close()

    def _write(self, name: str, slots: list[int], rows: Array) -> None:
        if self.scratch is None:
            self.rows[name][slots] = rows
            return
        for slot, row in zip(slots, rows, strict=True):
            self.scratch.write(name, slot, np.ascontiguousarray(row, self.initial[name].dtype))

    def _read(
        self, scratch: Scratch, slots: list[int], wanted: Mapping[str, Array]
    ) -> dict[str, Array]:
        out = {}
        for name, first in wanted.items():
            rows = np.empty((len(slots), *first.shape), first.dtype)
            for k, slot in enumerate(slots):
                if slot < 0:
                    rows[k] = first
                else:
                    scratch.read(name, slot, rows[k : k + 1])
            out[name] = rows
        return out

    def _reserve(self) -> None:
        """Take memory for a row of every client that has a slot, in memory or on the disk."""
        capacity = min((len(rows) for rows in self.rows.values()), default=0)
        if self.scratch is not None or capacity >= len(self.slots):
            return
        count = max(_FEWEST, 2 * len(self.slots))
        # While rows are copied, old and new ones fill no more than the new ones will.
        if not self.memory.change(capacity * self.row_bytes, count * self.row_bytes):
            self._spill(capacity)
            return
        for name, first in self.initial.items():
            grown = np.empty((count, *first.shape), first.dtype)
            if capacity:
                grown[:capacity] = self.rows[name]
            self.rows[name] = grown

    def _spill(self, capacity: int) -> None:
        """Move the rows to a scratch file."""
        scratch = Scratch(self.initial)
        for name, rows in self.rows.items():
            for slot in range(capacity):
                scratch.write(name, slot, rows[slot : slot + 1])
        self._forget_rows()
        self.scratch = scratch

    def _forget_rows(self) -> None:
        capacity = min((len(rows) for rows in self.rows.values()), default=0)
        self.memory.change(capacity * self.row_bytes, 0)
        self.rows = {}
