"""Energy of devices: computing, transfers, radio tails, and the carbon of their grid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal, NamedTuple

import numpy as np
from annotated_types import Ge, Gt, Le

from rayfed.core.arrays import Floats
from rayfed.core.errors import ScenarioError
from rayfed.core.files import of_epoch
from rayfed.core.plugins import FilePath
from rayfed.core.tables import TraceFile

JOULES = 3.6e6
"""Joules in a kilowatt-hour."""
_HOUR = 3600.0
_SHORT = 1e-3  # seconds in which the intensity is that of their beginning


class Radio(NamedTuple):
    """Energy of transfers.

    Parameters
    ----------
    down_j_per_mb, up_j_per_mb : float
        Joules per megabyte (10^6 bytes).
    active_w : float
        Further power during transfers.
    tail_w, tail_s : float
        Power after a transfer, and its longest duration.
    """

    down_j_per_mb: float = 0.0
    up_j_per_mb: float = 0.0
    active_w: float = 0.0
    tail_w: float = 0.0
    tail_s: float = 0.0


RADIOS = {
    "none": Radio(),
    "lte": Radio(8 * 0.05197, 8 * 0.43839, 1.28804, 1.0600, 11.576),
    "3g": Radio(8 * 0.12212, 8 * 0.86898, 0.81788, 0.8039, 8.0882),
    "wifi": Radio(8 * 0.13701, 8 * 0.28317, 0.13286, 0.1193, 0.2381),
}
"""Huang et al., "A close examination of performance and power characteristics of 4G LTE networks",
MobiSys 2012: tails of Table 3 (for 3G that of DCH), and the linear model of Table 4, power = alpha
Mbit/s + beta, whose alpha (mW per Mbit/s) is energy per bit. Promotions are left out."""


@dataclass(frozen=True)
class Battery:
    """The battery of a device, for tasks alone.

    Parameters
    ----------
    capacity_wh : float
    low, high : float
        Shares of the capacity between which the level at the beginning is drawn uniformly.
    least : float
        Share of the capacity with which a client begins a task.
    charge_w : float
        Power of charging, between tasks.
    from_h, to_h : float
        Hours of the day, from the beginning of the simulation, between which the device charges.
    """

    capacity_wh: Annotated[float, Gt(0)]
    low: Annotated[float, Ge(0), Le(1)] = 1.0
    high: Annotated[float, Ge(0), Le(1)] = 1.0
    least: Annotated[float, Gt(0), Le(1)] = 0.05
    charge_w: Annotated[float, Ge(0)] = 0.0
    from_h: Annotated[float, Ge(0), Le(24)] = 0.0
    to_h: Annotated[float, Ge(0), Le(24)] = 24.0

    def __post_init__(self) -> None:
        if self.low > self.high:
            text = f"found {self.low:g}, above high, {self.high:g}; give a lower share"
            raise ScenarioError("low", text)
        if self.from_h == self.to_h:
            raise ScenarioError("to_h", f"found {self.to_h:g}, as from_h; give another hour")

    @property
    def capacity_j(self) -> float:
        """The capacity in joules."""
        return _HOUR * self.capacity_wh

    @property
    def _daily_s(self) -> float:
        return _HOUR * ((self.to_h - self.from_h) % 24 or 24)

    def charging_until(self, time_s: Floats) -> Floats:
        """Return the seconds of charging (K,) since the start of the first daily charging."""
        days, rest = np.divmod(time_s - self.from_h * _HOUR, 24 * _HOUR)
        return np.asarray(days * self._daily_s + np.minimum(rest, self._daily_s))

    def charged_at(self, now_s: float, joules: float) -> float:
        """Return when it has charged by so much from now on; inf if never."""
        if not self.charge_w:
            return np.inf
        wanted = float(self.charging_until(np.array(now_s))) + joules / self.charge_w
        days = math.ceil(wanted / self._daily_s) - 1  # a whole day's charging ends on that day
        return self.from_h * _HOUR + days * 24 * _HOUR + wanted - days * self._daily_s


@dataclass(frozen=True)
class Energy:
    """Energy of a device, above that of an idle one.

    Parameters
    ----------
    compute_w : float, optional
        Power while computing, in watts; by default the column ``watts`` of a delay trace.
    radio : "none", "lte", "3g" or "wifi"
        Measured defaults of the following five settings, which are 0 for "none".
    down_j_per_mb, up_j_per_mb : float, optional
        Joules per megabyte (10^6 bytes) of downloads and uploads.
    active_w : float, optional
        Further power of the radio during transfers, latencies included.
    tail_w, tail_s : float, optional
        Power of the radio after a transfer, and for how many seconds, unless another one begins.
    g_per_kwh : float, optional
        Carbon intensity of the grid, in grams of CO2 equivalents per kilowatt-hour.
    carbon : str, optional
        A CSV or Parquet file of carbon intensities by hour, relative to the scenario: the columns
        ``hour``, each from 0 to the last once, and ``g_per_kwh``. It repeats after its last hour.
    start_h : float
        Hour of the file at which the simulation begins.
    battery : mapping, optional
        The battery; tasks never empty it if None.
    """

    compute_w: Annotated[float, Ge(0)] | None = None
    radio: Literal["none", "lte", "3g", "wifi"] = "none"
    down_j_per_mb: Annotated[float, Ge(0)] | None = None
    up_j_per_mb: Annotated[float, Ge(0)] | None = None
    active_w: Annotated[float, Ge(0)] | None = None
    tail_w: Annotated[float, Ge(0)] | None = None
    tail_s: Annotated[float, Ge(0)] | None = None
    g_per_kwh: Annotated[float, Ge(0)] | None = None
    carbon: FilePath | None = None
    start_h: Annotated[float, Ge(0)] = 0.0
    battery: Battery | None = None

    @cached_property
    def transfers(self) -> Radio:
        """The energy of transfers."""
        found = RADIOS[self.radio]
        own = {name: getattr(self, name) for name in Radio._fields}
        return found._replace(**{name: v for name, v in own.items() if v is not None})

    @property
    def by_time(self) -> bool:
        """Whether the radio has a power of its own, so that energy depends on transfer times."""
        return self.transfers.active_w > 0 or self.transfers.tail_w > 0

    @property
    def emits(self) -> bool:
        """Whether a carbon intensity is known."""
        return self.g_per_kwh is not None or self.carbon is not None

    def check(self) -> None:
        """Raise a `ScenarioError` if settings exclude each other, or the file is invalid."""
        if self.g_per_kwh is not None and self.carbon is not None:
            text = f"gives intensities in place of {self.g_per_kwh:g} g/kWh; leave one of them out"
            raise ScenarioError("carbon", text)
        if self.start_h and self.carbon is None:
            raise ScenarioError("start_h", "goes with a file of carbon intensities; leave it out")
        _ = self.intensities  # a bad file is refused before the run

    @cached_property
    def intensities(self) -> Floats:
        """The carbon intensities (H,) in g/kWh of the hours after which they repeat."""
        if self.carbon is None:
            return np.array([self.g_per_kwh or 0.0])
        table = TraceFile(self.carbon, "carbon")
        if not ("hour" in table and "g_per_kwh" in table):
            raise table.missing("hour and g_per_kwh")
        hours, values = table.numbers("hour"), table.numbers("g_per_kwh")
        if epoch := of_epoch(float(hours.max())):
            raise table.error(f"has hour {hours.max():g}, which {epoch}; count hours from 0")
        order, last = np.argsort(hours, kind="stable"), len(hours) - 1
        for hour in np.flatnonzero(hours[order] != np.arange(len(hours)))[:1]:
            text = f"hour {hour} is missing" if hours[order[hour]] > hour else "an hour comes twice"
            text = text if (hours % 1 == 0).all() else "an hour is no whole number"
            raise table.error(f"{text}; give every hour from 0 to {last} once, in {last + 1} rows")
        return np.asarray(values[order])

    def grams(self, joules: Floats, start_s: Floats, end_s: Floats) -> Floats:
        """Return the grams of CO2 equivalents (K,) of energies spread over intervals.

        Parameters
        ----------
        joules, start_s, end_s : (K,) array of float
        """
        hourly = self.intensities
        period_s = _HOUR * len(hourly)
        sums = np.concatenate([[0.0], np.cumsum(hourly * _HOUR)])
        edges = _HOUR * np.arange(len(sums))

        def until(time_s: Floats) -> Floats:
            turns, rest = np.divmod(time_s + self.start_h * _HOUR, period_s)
            return np.asarray(turns * sums[-1] + np.interp(rest, edges, sums))

        length = end_s - start_s
        at = ((start_s + self.start_h * _HOUR) % period_s // _HOUR).astype(np.int64)
        found, long = hourly[np.minimum(at, len(hourly) - 1)], length > _SHORT
        found[long] = ((until(end_s) - until(start_s))[long]) / length[long]
        return joules / JOULES * found
