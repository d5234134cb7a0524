"""Static clients, and random waypoint mobility."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Gt

from rayfed.core.arrays import Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.topology.mobility.base import Area, Mobility, Tracks, scattered


@dataclass(frozen=True, kw_only=True)
class Still(Mobility):
    """Every client stays at a random position."""

    name: ClassVar[str] = "still"
    moving: ClassVar[bool] = False

    def tracks(self, count: int, area: Area, key: Key) -> Tracks:
        """Return constant positions."""
        positions = scattered(count, area, key)
        return lambda time_s: positions


@dataclass(frozen=True, kw_only=True)
class Waypoint(Mobility):
    """Every client moves straight to a random point, pauses, and moves to the next.

    Random waypoint (Johnson, Maltz, "Dynamic Source Routing in Ad Hoc Wireless Networks", 1996),
    each leg at a speed drawn uniformly. The slowest speed must be above 0, or the mean speed would
    decay to zero (Yoon, Liu, Noble, "Random waypoint considered harmful", INFOCOM 2003). Clients
    start uniformly distributed; over time their density grows in the centre.

    Parameters
    ----------
    slowest_m_s, fastest_m_s : float
        Bounds of the speed of a leg, in metres per second.
    pause_s : float
        Pause at each point, in seconds.
    """

    name: ClassVar[str] = "waypoint"

    slowest_m_s: Annotated[float, Gt(0)] = 0.5
    fastest_m_s: Annotated[float, Gt(0)] = 2.0
    pause_s: Annotated[float, Ge(0)] = 0.0

    def __post_init__(self) -> None:
        if self.fastest_m_s < self.slowest_m_s:
            text = f"found {self.fastest_m_s:g}, below slowest_m_s, {self.slowest_m_s:g}"
            raise ScenarioError("fastest_m_s", f"{text}; exchange them")

    def tracks(self, count: int, area: Area, key: Key) -> Tracks:
        """Return the trajectories of N = count clients; legs are keyed by (client, leg number)."""
        return _Legs(self, count, area, key)


class _Legs:
    """The current leg of each client.

    A query forward in time computes the legs in between, a query backward all legs from the start.
    Nothing needs saving: a resumed run computes the legs again.
    """

    _now: float
    _leg: Ints  # (N,): number of the leg
    _since: Floats  # (N,): second of its start
    _walk: Floats  # (N,): seconds of walking
    _until: Floats  # (N,): second of its end, the pause included
    _origin: Floats  # (N, 2)
    _target: Floats  # (N, 2)

    def __init__(self, settings: Waypoint, count: int, area: Area, key: Key) -> None:
        self._settings, self._area, self._key = settings, np.array(area), key
        self._start = scattered(count, area, key)
        self._begin()

    def __call__(self, time_s: float) -> Floats:
        if time_s < self._now:
            self._begin()
        self._now = time_s
        late = np.flatnonzero(self._until <= time_s)
        while len(late):
            self._leg[late] += 1
            self._since[late], self._origin[late] = self._until[late], self._target[late]
            self._aim(late)
            late = late[self._until[late] <= time_s]
        share = np.minimum((time_s - self._since) / self._walk, 1.0)[:, None]
        return np.asarray(self._origin + share * (self._target - self._origin))

    def _begin(self) -> None:
        count = len(self._start)
        self._now = 0.0
        self._leg, self._since = np.zeros(count, dtype=np.int64), np.zeros(count)
        self._origin, self._target = self._start.copy(), self._start.copy()
        self._walk, self._until = np.zeros(count), np.zeros(count)
        self._aim(np.arange(count))

    def _aim(self, ids: Ints) -> None:
        """Draw the current legs of these clients."""
        settings = self._settings
        u = self._key.sub("leg").uniforms(ids, 3, round=self._leg[ids])
        speed = settings.slowest_m_s + (settings.fastest_m_s - settings.slowest_m_s) * u[:, 2]
        self._target[ids] = u[:, :2] * self._area
        distance = np.hypot(*(self._target[ids] - self._origin[ids]).T)
        self._walk[ids] = distance / speed
        self._until[ids] = self._since[ids] + self._walk[ids] + settings.pause_s
