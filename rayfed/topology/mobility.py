"""Mobility: positions of the clients, pure functions of the seed and the virtual time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar, NamedTuple, Protocol, Self, TypeAlias

import numpy as np
from annotated_types import Ge, Gt, Lt

from rayfed.core.arrays import Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.plugins import FilePath
from rayfed.core.rng import Key
from rayfed.core.tables import ClientRows, TraceFile, bound

Area: TypeAlias = tuple[float, float]
"""Width and height in metres."""


class Tracks(Protocol):
    """The trajectories of all clients; may cache the last state, which does not change results."""

    def __call__(self, time_s: float) -> Floats:
        """Return the positions (N, 2) in metres at a virtual second."""


@dataclass(frozen=True, kw_only=True)
class Mobility:
    """Base of all mobility models."""

    name: ClassVar[str]
    moving: ClassVar[bool] = True

    def tracks(self, count: int, area: Area, key: Key) -> Tracks:
        """Return the trajectories of N = count clients in an area."""
        raise NotImplementedError

    def named(self, names: Sequence[str]) -> Self:
        """Return the mobility of clients that the data name, empty if they do not."""
        return self

    def check_clients(self, count: int) -> None:
        """Raise a `ScenarioError` if the mobility is about clients that there are not."""
        return


def scattered(count: int, area: Area, key: Key) -> Floats:
    """Return positions (N, 2) drawn uniformly from an area."""
    positions: Floats = key.sub("start").uniforms(np.arange(count), 2) * np.array(area)
    return positions


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


class _Positions(NamedTuple):
    """Positions (R, 2) in metres, by client, then by time."""

    by_client: ClientRows
    metres: Floats


@dataclass(frozen=True, kw_only=True)
class MobilityTrace(Mobility):
    """Clients move between the positions of a file, straight and at constant speed.

    The file has a row for a client and a time: ``time`` or ``time_s``, in virtual seconds from 0
    (``time_ms``: milliseconds), ``id`` or ``client``, an id from 0 or the name of a client in the
    data, and ``x`` and ``y``, in metres from a corner of the area. A client stays at its first
    position before the time of that, and at its last one for good. Every client needs a row.

    Parameters
    ----------
    file : str
        A CSV or Parquet file, relative to the scenario.
    """

    name: ClassVar[str] = "trace"

    file: FilePath

    _names: tuple[str, ...] | None = field(default=None, init=False, repr=False)

    @classmethod
    def example(cls, folder: Path) -> MobilityTrace:
        """Return positions of 12 clients, for checks; see `rayfed.testing.examples`."""
        rows = [f"{t},{i},{(5 * i + t) % 80},{2 * i}" for t in (0, 10, 430) for i in range(12)]
        file = folder / "positions.csv"
        file.write_text("\n".join(["time,id,x,y", *rows]), encoding="utf-8")
        return cls(file=str(file))

    def named(self, names: Sequence[str]) -> MobilityTrace:
        """Return the mobility of clients with these names; see `Mobility.named`."""
        return bound(self, names)

    def check_clients(self, count: int) -> None:
        """Refuse positions of clients that there are not."""
        self._positions.by_client.check_clients(count)

    def tracks(self, count: int, area: Area, key: Key) -> Tracks:
        """Return the trajectories of N = count clients.

        Raises
        ------
        ScenarioError
            If a client has no position, or one outside of the area.
        """
        (rows, metres), ids = self._positions, np.arange(count)
        rows.check_members(ids, "give fewer clients")
        outside = np.flatnonzero((metres < 0).any(1) | (metres > np.array(area)).any(1))
        if len(outside):
            row = int(rows.order[outside].min())
            x, y = metres[rows.order == row][0]
            text = f"row {row + 1}: ({x:g}, {y:g}) is outside of area_m, {area[0]:g} by {area[1]:g}"
            raise rows.error(f"{text}; enlarge it, or shift all positions")
        first, last = rows.first[:count], rows.first[1 : count + 1] - 1

        def positions(time_s: float) -> Floats:
            at = rows.at(ids, np.full(count, time_s))[1]
            before, after = np.maximum(at, first), np.minimum(at + 1, last)
            lasts = rows.moments[after] - rows.moments[before]
            passed = np.clip(time_s - rows.moments[before], 0.0, lasts)
            share = np.divide(passed, lasts, out=np.zeros(count), where=lasts > 0)[:, None]
            return np.asarray(metres[before] + share * (metres[after] - metres[before]))

        return positions

    @cached_property
    def _positions(self) -> _Positions:
        table = TraceFile(self.file, "topology.mobility.file")
        ids = "client" if "client" in table else "id"
        if not all(name in table for name in (ids, "x", "y")):
            raise table.missing("time, id, x and y")
        times = table.times()
        table.frame = table.frame.rename(columns={ids: "client"})
        metres = np.stack([table.numbers(name, -np.inf) for name in ("x", "y")], axis=1)
        rows = ClientRows.of(table, times, "time", self._names)
        return _Positions(rows, metres[rows.order])


_LEVELS = 31  # supports 2**31 steps


@dataclass(frozen=True, kw_only=True)
class GaussMarkov(Mobility):
    """Every client's velocity is a first-order autoregressive process.

    B. Liang, Z. J. Haas, "Predictive Distance-Based Mobility Management for PCS Networks", INFOCOM
    1999, with mean velocity zero in each direction.

    In each direction ``v_{n+1} = memory v_n + sigma sqrt(1 - memory^2) w_n`` and
    ``x_{n+1} = x_n + step_s v_n``; at the edges of the area clients are reflected.

    Parameters
    ----------
    speed_m_s : float
        Mean speed in metres per second; sigma is ``speed_m_s sqrt(2 / pi)``.
    memory : float
        Correlation of the velocities of consecutive steps: near 1 motion is almost straight, at 0
        it is a random walk.
    step_s : float
        Length of a step in seconds.
    """

    name: ClassVar[str] = "gauss-markov"

    speed_m_s: Annotated[float, Gt(0)] = 1.0
    memory: Annotated[float, Ge(0), Lt(1)] = 0.9
    step_s: Annotated[float, Gt(0)] = 1.0

    @property
    def sigma(self) -> float:
        """Standard deviation of the velocity in each direction, in metres per second."""
        return self.speed_m_s * math.sqrt(2.0 / math.pi)

    def tracks(self, count: int, area: Area, key: Key) -> Tracks:
        """Return the trajectories of N = count clients."""
        return _Bridges(self, count, area, key)


class _Bridges:
    """Positions and velocities at any step, computed without the steps before it.

    On an area without edges they are a linear Gaussian process, so the state in the middle of two
    known states has a known distribution. From the states at step 0 and at step 2**31 any other is
    reached by bisection; every step is the middle of exactly one interval, and its draw is keyed by
    the step. Positions are then folded into the area, which has the same distribution as reflection
    at the edges because the noise is symmetric. A first query costs 31 passes over the clients, the
    next step about two.
    """

    def __init__(self, settings: GaussMarkov, count: int, area: Area, key: Key) -> None:
        self._step_s, self._area, self._key = settings.step_s, np.array(area), key.sub("velocity")
        self._ids = np.arange(count)
        self._laws = _laws(settings)
        start = np.empty((count, 2, 2))  # client, direction, (position, velocity)
        start[:, :, 0] = scattered(count, area, key)
        start[:, :, 1] = settings.sigma * key.sub("first").normals(self._ids, 2)
        top = self._laws[_LEVELS]
        noise = self._noise(2**_LEVELS - 1)
        self._ends = (start, _applied(top.move, start) + _applied(top.spread, noise))
        self._middles: dict[int, tuple[int, Floats]] = {}

    def __call__(self, time_s: float) -> Floats:
        n = int(time_s // self._step_s)
        if n >= 2**_LEVELS - 1:
            raise ValueError(f"{time_s:g} s are more than 2**31 steps of {self._step_s:g} s")
        state = self._at(n)
        where = state[:, :, 0] + (time_s - n * self._step_s) * state[:, :, 1]
        folded = np.mod(where, 2.0 * self._area)
        return np.asarray(np.minimum(folded, 2.0 * self._area - folded))

    def _at(self, n: int) -> Floats:
        """Return the state (N, 2, 2) at a step."""
        first, (left, right) = 0, self._ends
        for level in reversed(range(_LEVELS)):
            if n == first:
                break
            middle = first + 2**level
            state = self._middle(level, middle, left, right)
            if n < middle:
                right = state
            else:
                first, left = middle, state
        return left

    def _middle(self, level: int, n: int, left: Floats, right: Floats) -> Floats:
        known = self._middles.get(level)
        if known is None or known[0] != n:
            law, double = self._laws[level], self._laws[level + 1]
            ahead = _applied(law.gain, right - _applied(double.move, left))
            mean = _applied(law.move, left) + ahead
            known = self._middles[level] = (n, mean + _applied(law.bridge, self._noise(n)))
        return known[1]

    def _noise(self, n: int) -> Floats:
        return self._key.normals(self._ids, 4, round=n).reshape(-1, 2, 2)


@dataclass(frozen=True)
class _Law:
    """Transition of a state over 2**level steps, for one direction.

    Parameters
    ----------
    move, spread : (2, 2) array
        After these steps the state is ``move s + spread z`` with standard normal z.
    gain, bridge : (2, 2) array
        At the middle of an interval of twice the length that ends in state e, it is
        ``move s + gain (e - move^2 s) + bridge z``.
    """

    move: Floats
    spread: Floats
    gain: Floats
    bridge: Floats


def _laws(settings: GaussMarkov) -> list[_Law]:
    a, dt = settings.memory, settings.step_s
    move = np.array([[1.0, dt], [0.0, a]])
    cov = np.array([[0.0, 0.0], [0.0, settings.sigma**2 * (1.0 - a * a)]])
    laws = []
    for _ in range(_LEVELS + 1):
        through = move @ cov
        twice = through @ move.T + cov
        gain = np.linalg.solve(twice, through).T
        laws.append(_Law(move, _root(cov), gain, _root(cov - gain @ through)))
        move, cov = move @ move, twice
    return laws


def _applied(matrix: Floats, states: Floats) -> Floats:
    """Apply a matrix (2, 2) to all states (N, 2, 2); N small products take seven times as long."""
    made: Floats = (states.reshape(-1, 2) @ matrix.T).reshape(states.shape)
    return made


def _root(cov: Floats) -> Floats:
    """Return a square root of a covariance (2, 2), which may be singular."""
    values, vectors = np.linalg.eigh((cov + cov.T) / 2.0)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
