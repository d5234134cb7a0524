"""Diurnal availability: a window of the local day, with time zones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Gt, Interval, Len, Lt

from rayfed.core.arrays import Bools, Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.core.shares import rounded
from rayfed.population.availability.base import Availability, PopulationInfo, Times

DAY_S = 86_400.0
_HOUR_S = 3600.0
_DAYS_BEFORE = 8  # so that the number of a day before the start is not negative

Offset = Annotated[float, Interval(ge=-12, le=14)]
Hour = Annotated[float, Interval(ge=0, le=24)]


@dataclass(frozen=True, kw_only=True)
class Zone:
    """A time zone and its share of the clients.

    Parameters
    ----------
    utc_h : float
        Hours that its clocks are ahead of UTC.
    share : float
        Relative number of clients, in proportion to the other zones' shares.
    """

    utc_h: Offset = 0.0
    share: Annotated[float, Gt(0)] = 1.0


@dataclass(frozen=True, kw_only=True)
class Diurnal(Availability):
    """Clients are available from one hour of their local day to another.

    Devices take part while they are idle, charging and on an unmetered network, typically at night
    (Bonawitz et al., "Towards Federated Learning at Scale: System Design", MLSys 2019,
    https://arxiv.org/abs/1902.01046). Time zones then take turns, as the groups of `cyclic` do,
    on the virtual clock.

    Parameters
    ----------
    zones : list
        Time zones with their shares, ``{utc_h: -5, share: 0.3}``, assigned to the clients by
        the seed; or a number for each client, the hours that its clock is ahead of UTC.
    from_h, to_h : float
        Local hours at which the window opens and closes; it may span midnight.
    start_utc_h : float
        Hour of the day in UTC at virtual second 0.
    jitter_h : float
        Hours by which a client's window opens and closes earlier or later at most, each drawn
        uniformly for each client and day; less than half of the window and of the rest of the day.

    Raises
    ------
    ScenarioError
        If `from_h` and `to_h` are the same time of the day, to a second, if `jitter_h` lets
        windows vanish or meet, or if numbers in `zones` are not one for each client.

    Examples
    --------
    Three clients in London, New York and Tokyo, awake at night; at 12:00 UTC it is 21:00 in
    Tokyo, whose night begins an hour later.

    >>> night = Diurnal(zones=(0.0, -5.0, 9.0), start_utc_h=12)
    >>> population = PopulationInfo(count=3, seed=0)
    >>> [night.available(np.arange(3), 3600.0 * h, 1, population).tolist() for h in (0, 1, 10)]
    [[False, False, False], [False, False, True], [True, False, False]]
    >>> (night.next_change(np.arange(3), 0.0, population) / 3600).tolist()
    [10.0, 15.0, 1.0]
    """

    name: ClassVar[str] = "diurnal"
    own_times: ClassVar[bool] = True

    zones: Annotated[tuple[Zone | Offset, ...], Len(1)] = (Zone(),)
    from_h: Hour = 22.0
    to_h: Hour = 6.0
    start_utc_h: Annotated[float, Ge(0), Lt(24)] = 0.0
    jitter_h: Annotated[float, Interval(ge=0, le=12)] = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self._length_s <= DAY_S - 1:  # shorter windows vanish in rounding
            text = f"from_h {self.from_h:g} and to_h {self.to_h:g} are the same time of the day"
            raise ScenarioError("", f"{text}; change one, or use always")
        shortest = min(self._length_s, DAY_S - self._length_s)
        if self.jitter_h and 2 * self.jitter_h * _HOUR_S > shortest - 1:
            text = f"found {self.jitter_h:g}; give less than {shortest / _HOUR_S / 2:g}"
            raise ScenarioError("jitter_h", f"{text}, so that windows neither vanish nor meet")
        if len({isinstance(zone, Zone) for zone in self.zones}) > 1:
            text = "found both zones with shares and numbers, one for each client; give one kind"
            raise ScenarioError("zones", text)

    def check(self, population: PopulationInfo) -> None:
        """Refuse a list of offsets with another length than the number of clients."""
        if not isinstance(self.zones[0], Zone) and len(self.zones) != population.count:
            text = f"found {len(self.zones)} numbers for {population.count} clients"
            raise ScenarioError("clients.availability.zones", f"{text}; give one for each")

    def available(self, ids: Ints, t: Times, round: int, population: PopulationInfo) -> Bools:
        """Return a mask (K,) of clients with open windows."""
        _, closes, _ = self._window(ids, t, population)
        return np.asarray(t < closes)

    def next_change(self, ids: Ints, t: Times, population: PopulationInfo) -> Floats:
        """Return when an open window closes, or a closed one opens (K,)."""
        _, closes, again = self._window(ids, t, population)
        return np.where(t < closes, closes, again)

    def chance(self, ids: Ints, t: float, round: int, population: PopulationInfo) -> Floats:
        """Return the share (K,) of a day that windows are open, on average over days."""
        return np.full(len(ids), self._length_s / DAY_S)

    def utc_h(self, ids: Ints, population: PopulationInfo) -> Floats:
        """Return the hours (K,) that each client's clock is ahead of UTC."""
        ids = np.asarray(ids)
        offsets, ends = self._zones
        if not len(ends):
            return offsets[ids]
        ends = np.array([rounded(end, population.count) for end in ends.tolist()])
        place = Key(population.seed, "zones").permutation(population.count)(ids)
        return np.asarray(offsets[np.searchsorted(ends, place, side="right")])

    @cached_property
    def _zones(self) -> tuple[Floats, Floats]:
        """The hours of zones, and the shares of clients up to each; none if they have none."""
        offsets = np.array([z.utc_h if isinstance(z, Zone) else z for z in self.zones])
        ends = np.cumsum([z.share for z in self.zones if isinstance(z, Zone)])
        return offsets.astype(np.float64), ends / ends[-1:]

    def _window(
        self, ids: Ints, t: Times, population: PopulationInfo
    ) -> tuple[Floats, Floats, Floats]:
        """Return the last opening (K,) at or before t, its closing, and the next opening.

        The clock may jump to exactly these numbers, so t is compared with them without rounding.
        """
        if self.jitter_h:
            return self._jittered(ids, t, population)
        first = (self.from_h - self.utc_h(ids, population) - self.start_utc_h) * _HOUR_S % DAY_S
        day = np.floor((t - first) / DAY_S)
        day += (first + (day + 1) * DAY_S <= t).astype(np.float64)
        day -= first + day * DAY_S > t
        opens = first + day * DAY_S
        return opens, opens + self._length_s, first + (day + 1) * DAY_S

    def _jittered(
        self, ids: Ints, t: Times, population: PopulationInfo
    ) -> tuple[Floats, Floats, Floats]:
        """Return the result of `_window` for openings and closings that differ from day to day."""
        first = (self.from_h - self.utc_h(ids, population) - self.start_utc_h) * _HOUR_S % DAY_S
        today = np.floor((t - first) / DAY_S)
        days = [self._day(ids, first, today + k, population) for k in (-1, 0, 1, 2)]
        opens, closes = np.stack(days, axis=1)  # (4, K) each
        last = np.count_nonzero(opens <= t, axis=0) - 1  # of yesterday, today or tomorrow
        index = np.arange(len(first))
        return opens[last, index], closes[last, index], opens[last + 1, index]

    def _day(
        self, ids: Ints, first: Floats, day: Floats, population: PopulationInfo
    ) -> tuple[Floats, Floats]:
        """Return when the windows (K,) of a day of each client open and close."""
        key = Key(population.seed, "diurnal/jitter")
        u = key.uniforms(ids, 2, round=day.astype(np.int64) + _DAYS_BEFORE)
        shift = (2.0 * u - 1.0) * (self.jitter_h * _HOUR_S)
        opens = first + day * DAY_S
        return opens + shift[:, 0], opens + self._length_s + shift[:, 1]

    @property
    def _length_s(self) -> float:
        return (self.to_h - self.from_h) * _HOUR_S % DAY_S
