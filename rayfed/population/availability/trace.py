"""Availability from a file: intervals in which devices are open, which may repeat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Gt

from rayfed.core.arrays import Bools, Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.names import distinct
from rayfed.core.plugins import FilePath
from rayfed.core.rng import Key
from rayfed.core.tables import SECONDS, TraceFile, bound, by_name, clients
from rayfed.population.availability.base import Availability, PopulationInfo, Times

_YEAR_S = 365.25 * 86400
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
        """Return the number of changes (K,) of a device at or before a second of the trace."""
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
    start, end = (table.scaled(stem, SECONDS) for stem in ("start", "end"))
    if start is None or end is None or not (by_client or "device" in table):
        raise table.missing("client or device, start_s and end_s (or start_ms and end_ms)")
    for row in np.flatnonzero(end <= start)[:1]:
        text = f"row {row + 1}: the end, {end[row]:g} s, is not after the start, {start[row]:g} s"
        raise table.error(f"{text}; give the end of the interval")
    _check_units(table, float(start.min()), float(end.max()), repeat_s)
    if not by_client:
        return alternating(_devices(table), start, end, repeat_s)
    ids, device = np.unique(clients(table, names), return_inverse=True)
    found = alternating(device, start, end, repeat_s)
    return replace(found, clients=ids, by_name=by_name(table))


def _check_units(table: TraceFile, first_s: float, last_s: float, repeat_s: float | None) -> None:
    """Refuse times that do not begin with the trace, and seconds that seem to be milliseconds.

    A study begins at 0 s, and no client would be available for decades.
    """
    table.check_start(first_s)
    milliseconds = "" if "end_ms" in table else ", or call the columns start_ms and end_ms"
    if repeat_s is not None and last_s > repeat_s:
        text = f"ends at {last_s:g} s, after repeat_s {repeat_s:g}; give a longer repeat_s"
        raise table.error(text + milliseconds * (last_s / SECONDS["ms"] <= repeat_s))
    if repeat_s is None and last_s > _YEAR_S and milliseconds:
        text = f"ends at {last_s:g} s, after {last_s / _YEAR_S:.2g} years: are these milliseconds?"
        raise table.error(f"{text} Call the columns start_ms and end_ms, or give repeat_s")


def _devices(table: TraceFile) -> Ints:
    return distinct(table.values("device"))[1]


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
        changed = np.ones(len(changes), dtype=np.bool_)
        changed[low[both]] = changed[high[both]] = False
        changes, owner = changes[changed], owner[changed]
        first = np.searchsorted(owner, np.arange(count + 2))
    return Intervals(changes, first, through, repeat_s)


_FILE = "clients.availability.file"


@dataclass(frozen=True, kw_only=True)
class AvailabilityTrace(Availability):
    """Clients are available in the intervals of a file.

    The file has a row for each interval, with ``start_s``, ``end_s`` (not included) and ``client``,
    an id from 0 or the name of a client in the data, or ``device``, any name. Columns ``start_ms``
    and ``end_ms`` are milliseconds. The trace begins at 0. A client without an
    interval is never available. Devices are dealt to the clients by the seed. If there are more
    clients than devices, each device is dealt several times; those who do not get it first are at
    another place of the trace, if it repeats.

    Parameters
    ----------
    file : str
        A CSV or Parquet file, relative to the scenario.
    repeat_s : float, optional
        Virtual seconds after which the trace starts again, at least one; if None, no client is
        available after its end.
    shift_s : float, optional
        Whole multiples of it are what clients with the same device are shifted by:
        ``shift_s: 86400`` keeps the hour of the day. Any shift if None.

    Raises
    ------
    ScenarioError
        If `shift_s` is not below `repeat_s`, or is given without it.
    """

    name: ClassVar[str] = "trace"
    own_times: ClassVar[bool] = True

    file: FilePath
    repeat_s: Annotated[float, Ge(1)] | None = None
    shift_s: Annotated[float, Gt(0)] | None = None

    _names: tuple[str, ...] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.shift_s is not None and self.shift_s >= (self.repeat_s or 0.0):
            text = f"found {self.shift_s:g}; it goes with a longer repeat_s"
            raise ScenarioError("shift_s", text)

    @classmethod
    def example(cls, folder: Path) -> AvailabilityTrace:
        """Return a trace of three devices that repeats, for checks."""
        rows = ["device,start_s,end_s", "a,0,50", "a,70,100", "b,10,60.5", "c,90,100", "c,0,3"]
        file = folder / "intervals.csv"
        file.write_text("\n".join(rows), encoding="utf-8")
        return cls(file=str(file), repeat_s=100.0)

    def named(self, names: Sequence[str]) -> AvailabilityTrace:
        """Return the availability of clients with these names; see `Availability.named`."""
        held = self._intervals
        if held.clients is None or not (names or held.by_name):
            return self  # the file has no names, and is read once for all seeds
        made = bound(self, names)
        _ = made._intervals  # a name that is no client's is refused here
        return made

    def check(self, population: PopulationInfo) -> None:
        """Read the file, and refuse ids of clients that there are not."""
        ids = self._intervals.clients
        if ids is not None and ids[-1] >= population.count:
            text = f"found client {ids[-1]}"
            raise ScenarioError(_FILE, f"{text}; ids go from 0 to {population.count - 1}")

    def available(self, ids: Ints, t: Times, round: int, population: PopulationInfo) -> Bools:
        """Return a mask (K,) of clients within an interval."""
        device, shift = self._dealt(np.asarray(ids), population)
        at = self._intervals.changes_until(device, shift, t)
        return self._intervals.open_after(device, at)

    def next_change(self, ids: Ints, t: Times, population: PopulationInfo) -> Floats:
        """Return when an interval ends or begins (K,)."""
        device, shift = self._dealt(np.asarray(ids), population)
        at = self._intervals.changes_until(device, shift, t)
        return np.maximum(self._intervals.time(device, shift, at + 1), np.nextafter(t, np.inf))

    def _dealt(self, ids: Ints, population: PopulationInfo) -> tuple[Ints, Floats]:
        """Return the device (K,) of each client, and its shift in seconds."""
        held = self._intervals
        if held.clients is not None:  # clients not in the file have the device that never opens
            at = np.minimum(np.searchsorted(held.clients, ids), held.count - 1)
            return np.where(held.clients[at] == ids, at, held.count), np.zeros(len(ids))
        place = Key(population.seed, "availability/device").permutation(population.count)(ids)
        device = place % held.count
        if self.repeat_s is None or population.count <= held.count:
            return device, np.zeros(len(ids))
        u = Key(population.seed, "availability/shift").uniforms(ids)
        if self.shift_s is None:
            shift = u * self.repeat_s
        else:
            places = max(np.floor(self.repeat_s / self.shift_s), 2)
            shift = np.floor(u * places) * self.shift_s
        return device, np.where(place < held.count, 0.0, shift)

    @cached_property
    def _intervals(self) -> Intervals:
        return read(TraceFile(self.file, _FILE), self.repeat_s, self._names)
