"""Availability read from a file: intervals in which clients, or devices, can be reached."""

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
from rayfed.core.plugins import FilePath
from rayfed.core.rng import Key
from rayfed.population.availability.base import Availability, PopulationInfo, Times
from rayfed.population.availability.intervals import Intervals, read
from rayfed.population.tables import TraceFile

_FILE = "clients.availability.file"


@dataclass(frozen=True, kw_only=True)
class Trace(Availability):
    """Clients are available in the intervals of a file.

    The file has a row for each interval, with ``start_s``, ``end_s`` (not included) and ``client``,
    an id from 0 or the name of a client in the data, or ``device``, any name. A client without an
    interval is never available. Devices are dealt to the clients by the seed. If there are more
    clients than devices, each device is dealt several times; those who do not get it first are at
    another place of the trace, if it repeats.

    Parameters
    ----------
    file : str
        A CSV or Parquet file, relative to the scenario.
    repeat_s : float, optional
        Virtual seconds after which the trace starts again, at least one; if None, nobody is
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
    def example(cls, folder: Path) -> Trace:
        """Return a trace of three devices that repeats, for checks."""
        rows = ["device,start_s,end_s", "a,0,50", "a,70,100", "b,10,60.5", "c,90,100", "c,0,3"]
        file = folder / "intervals.csv"
        file.write_text("\n".join(rows), encoding="utf-8")
        return cls(file=str(file), repeat_s=100.0)

    def named(self, names: Sequence[str]) -> Trace:
        """Return the availability of clients with these names; see `Availability.named`."""
        held = self._intervals
        if held.clients is None or not (names or held.by_name):
            return self  # the file has no names, and is read once for all seeds
        bound = replace(self)
        object.__setattr__(bound, "_names", tuple(names))
        _ = bound._intervals  # a name that is no client's is refused here
        return bound

    def check(self, population: PopulationInfo) -> None:
        """Read the file, and refuse ids of clients that there are not."""
        ids = self._intervals.clients
        if ids is not None and ids[-1] >= population.count:
            text = f"found client {ids[-1]}"
            raise ScenarioError(_FILE, f"{text}; ids go from 0 to {population.count - 1}")

    def available(self, ids: Ints, t: float, round: int, population: PopulationInfo) -> Bools:
        """Return who is in an interval (K,)."""
        device, shift = self._dealt(np.asarray(ids), population)
        at = self._intervals.changes_until(device, shift, t)
        return self._intervals.open_after(device, at)

    def next_change(self, ids: Ints, t: Times, population: PopulationInfo) -> Floats:
        """Return when an interval ends or begins (K,)."""
        device, shift = self._dealt(np.asarray(ids), population)
        at = self._intervals.changes_until(device, shift, t)
        return np.maximum(self._intervals.time(device, shift, at + 1), np.nextafter(t, np.inf))

    def _dealt(self, ids: Ints, population: PopulationInfo) -> tuple[Ints, Floats]:
        """Return the device (K,) of each client, and by how many seconds it is shifted."""
        held = self._intervals
        if held.clients is not None:  # whom the file does not name has the device that never opens
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
            shift = np.floor(u * np.floor(self.repeat_s / self.shift_s)) * self.shift_s
        return device, np.where(place < held.count, 0.0, shift)

    @cached_property
    def _intervals(self) -> Intervals:
        return read(TraceFile(self.file, _FILE), self.repeat_s, self._names)
