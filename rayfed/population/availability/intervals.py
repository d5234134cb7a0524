"""Tables of intervals that can be asked about at any time, and may repeat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rayfed.core.arrays import Bools, Floats, Ints
from rayfed.population.availability.base import Times
from rayfed.population.tables import TraceFile, clients

_CORRECTIONS = 64  # of rounding; one or two suffice where the clock resolves the changes


@dataclass(frozen=True)
class Intervals:
    """When devices open and close: changes that alternate, numbered on through all repetitions.

    Parameters
    ----------
    changes : (M,) array of float
        Seconds from the start of the trace, ascending for each device, of which all have an even
        number.
    first : (D + 2,) array of int
        Where the changes of each device begin. The last device never opens.
    open_first : (D + 1,) array of bool
        Whether a device is open before its first change.
    repeat_s : float, optional
        Seconds after which the changes come again; never if None.
    clients : (D,) array of int, optional
        Ids of the clients that the devices are, ascending; None where the seed deals devices.
    by_name : bool
        Whether the file gives some of these clients by name.
    """

    changes: Floats
    first: Ints
    open_first: Bools
    repeat_s: float | None
    clients: Ints | None = None
    by_name: bool = False

    @property
    def count(self) -> int:
        """Number D of devices."""
        return len(self.first) - 2

    def changes_until(self, device: Ints, shift: Floats, t: Times) -> Ints:
        """Return the number (K,) of the last change at or before t, counted from 0; -1 for none.

        The clock may jump to exactly the numbers that `time` returns, so t is compared with them
        without rounding.
        """
        length = self._length(device)
        lap = np.zeros(len(device))
        if self.repeat_s is not None:
            lap = np.floor((t - shift) / self.repeat_s)
        local = t - shift - lap * (self.repeat_s or 0.0)
        number = lap.astype(np.int64) * length + self._until(device, local) - 1
        some = np.flatnonzero(length > 0)
        t = np.broadcast_to(t, len(device))[some]
        device, shift, at = device[some], shift[some], number[some]
        for _ in range(_CORRECTIONS):
            wrong = (self.time(device, shift, at + 1) <= t) * 1 - (self.time(device, shift, at) > t)
            if not wrong.any():
                break
            at += wrong
        number[some] = at
        return number

    def open_after(self, device: Ints, number: Ints) -> Bools:
        """Return which devices (K,) are open after a change."""
        opened = (number % 2 == 0) & (self._length(device) > 0)
        return np.asarray(opened ^ self.open_first[device])

    def time(self, device: Ints, shift: Floats, number: Ints) -> Floats:
        """Return the second (K,) of a change; infinite beyond the first or the last."""
        length = self._length(device)
        lap, index = np.divmod(number, np.maximum(length, 1))
        none = (length == 0) | ((lap != 0) & (self.repeat_s is None))
        at = np.where(none, 0, self.first[device] + index)
        seconds = np.append(self.changes, 0.0)[at] + shift + lap * (self.repeat_s or 0.0)
        return np.where(none, np.where(number < 0, -np.inf, np.inf), seconds)

    def _length(self, device: Ints) -> Ints:
        return self.first[device + 1] - self.first[device]

    def _until(self, device: Ints, local: Floats) -> Ints:
        """Return how many changes (K,) of a device are at or before a second of the trace."""
        values, places = self._ordered
        wanted = device * (len(values) + 1) + np.searchsorted(values, local, side="right")
        return np.asarray(np.searchsorted(places, wanted, side="right") - self.first[device])

    @cached_property
    def _ordered(self) -> tuple[Floats, Ints]:
        """All seconds of changes, ascending, and where each change is by device, then second."""
        values, rank = np.unique(self.changes, return_inverse=True)
        owner = np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))
        return values, owner * (len(values) + 1) + rank + 1


def read(table: TraceFile, repeat_s: float | None, names: Sequence[str] | None = None) -> Intervals:
    """Return the intervals of a file, those that meet or overlap joined.

    Parameters
    ----------
    table : TraceFile
    repeat_s : float, optional
        As in `Intervals`.
    names : sequence of str, optional
        Of the clients, as `rayfed.core.names.in_column` takes them.

    Raises
    ------
    ScenarioError
        If a column is missing, a cell is not a number or no client's name, an interval is empty or
        begins below 0 s, or one ends after `repeat_s`.
    """
    by_client = "client" in table
    if not ({"start_s", "end_s"} <= set(table.frame.columns) and (by_client or "device" in table)):
        raise table.missing("client or device, start_s and end_s")
    start, end = table.numbers("start_s"), table.numbers("end_s")
    for row in np.flatnonzero(end <= start)[:1]:
        text = f"row {row + 1}: end_s {end[row]:g} is not after start_s {start[row]:g}"
        raise table.error(f"{text}; give the end of the interval")
    if repeat_s is not None and end.max() > repeat_s:
        text = f"ends at {end.max():g} s, after repeat_s {repeat_s:g}"
        raise table.error(f"{text}; give a longer repeat_s")
    if not by_client:
        return alternating(_devices(table), start, end, repeat_s)
    ids, device = np.unique(clients(table, names), return_inverse=True)
    by_name = bool(np.isnan(table.as_numbers("client")).any())
    return replace(alternating(device, start, end, repeat_s), clients=ids, by_name=by_name)


def _devices(table: TraceFile) -> Ints:
    names = table.values("device")
    if names.dtype.kind not in "iuf":
        names = names.astype(str)
    return np.unique(names, return_inverse=True)[1].ravel()


def alternating(device: Ints, start: Floats, end: Floats, repeat_s: float | None) -> Intervals:
    """Return intervals (R,) as changes that alternate, also across the end of the trace."""
    values, rank = np.unique(np.concatenate([start, end]), return_inverse=True)
    opens, closes = (device * len(values) + part for part in np.split(rank.ravel(), 2))
    order = np.lexsort((closes, opens))
    reach = np.maximum.accumulate(closes[order])
    apart = np.append(True, opens[order][1:] > reach[:-1])
    owner = np.repeat(device[order][apart], 2)
    ends = reach[np.append(apart[1:], True)] % len(values)
    changes = np.stack([start[order][apart], values[ends]], axis=1).ravel()

    count = int(device.max()) + 1
    first = np.searchsorted(owner, np.arange(count + 2))
    through = np.zeros(count + 1, dtype=np.bool_)  # open at the end of the trace and at its start
    if repeat_s is not None:
        some = np.flatnonzero(np.diff(first) > 0)
        low, high = first[some], first[some + 1] - 1
        both = (changes[low] == 0.0) & (changes[high] == repeat_s)
        through[some[both]] = True
        kept = np.ones(len(changes), dtype=np.bool_)
        kept[low[both]] = kept[high[both]] = False
        changes, owner = changes[kept], owner[kept]
        first = np.searchsorted(owner, np.arange(count + 2))
    return Intervals(changes, first, through, repeat_s)
