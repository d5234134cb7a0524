"""The population: computing speed, network speed and availability of every client.

Everything is a pure function of the client ids and the run's seed: all algorithms of a study see
the same clients, and registered clients that are never sampled cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Annotated, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt, Le

from rayfed.core.arrays import Array, Bools, Floats, Ints
from rayfed.core.errors import ScenarioError, under
from rayfed.core.plugins import FilePath
from rayfed.core.rng import Draw, Key, part_of
from rayfed.core.shares import rounded
from rayfed.core.tables import OF_GROUP, bound
from rayfed.population.availability.base import Always, Availability, Need, PopulationInfo, Times
from rayfed.population.bandwidth import Bandwidths
from rayfed.population.crash import TRIES, Crash, Crashes
from rayfed.population.delay.base import Delay
from rayfed.population.delay.distributions import ConstantDelay
from rayfed.population.energy import Energy

Part = TypeVar("Part")
Scalar = TypeVar("Scalar", np.bool_, np.float64)
Which: TypeAlias = Bools | slice
"""Some of the clients (K,) that are asked about."""

_BITS = 8e-6  # megabits in a byte


@dataclass(frozen=True)
class Stragglers:
    """A fixed subset of clients that compute slowly.

    Parameters
    ----------
    fraction : float
        Share of the population; ``round(fraction * N)`` clients.
    slowdown : float
        Factor on the duration of their steps.
    """

    fraction: Annotated[float, Ge(0), Le(1)] = 0.0
    slowdown: Annotated[float, Gt(0)] = 1.0


@dataclass(frozen=True)
class Connection:
    """The connection of a client.

    Parameters
    ----------
    down_mbps, up_mbps : float, optional
        Bandwidth in megabits per second; transfers take no time if None.
    latency_s : float
        Seconds added to every transfer, in each direction.
    loss : float
        Probability that the connection breaks during an Ask, at a moment drawn uniformly: the
        task is lost, as if the client had dropped out for good.
    duplex : "full" or "half"
        Whether it carries a download and an upload at a time, or one after the other. It matters
        only where clients send while they go on.
    file : str, optional
        A CSV or Parquet file, relative to the scenario, of bandwidths over time: ``client``, an id
        from 0 or the name of a client in the data, ``time_s``, in virtual seconds from 0, and
        ``mbps``, or ``down_mbps`` and ``up_mbps``. A rate holds until the next row of the client,
        and before the first one that one, with `repeat_s` the last one. 0 is a pause. Every client
        needs a row.
    repeat_s : float, optional
        Seconds after which the rows of the file come again; the last ones hold for good if None.
    """

    down_mbps: Annotated[float, Gt(0)] | None = None
    up_mbps: Annotated[float, Gt(0)] | None = None
    latency_s: Annotated[float, Ge(0)] = 0.0
    loss: Annotated[float, Ge(0), Le(1)] = 0.0
    duplex: Literal["full", "half"] = "full"
    file: FilePath | None = None
    repeat_s: Annotated[float, Gt(0)] | None = None

    _names: tuple[str, ...] | None = field(default=None, init=False, repr=False)

    def named(self, names: Sequence[str]) -> Connection:
        """Return the connection of clients that the data name, empty if they do not."""
        return self if self.file is None else bound(self, names)

    @cached_property
    def bandwidths(self) -> Bandwidths | None:
        """The bandwidths of the file; None without one."""
        if self.file is None:
            return None
        return Bandwidths.read(self.file, self.repeat_s, self._names)

    def check(self, count: int, ids: Callable[[], Ints]) -> None:
        """Raise a `ScenarioError` if the file is invalid, or about others of N = count clients.

        `ids` returns the clients (K,) that have this connection.
        """
        if self.file is None:
            if self.repeat_s is not None:
                raise ScenarioError("repeat_s", "goes with a file of bandwidths; leave it out")
            return
        assert self.bandwidths is not None
        for way, mbps in zip((self.down_mbps, self.up_mbps), self.bandwidths.mbps, strict=True):
            if way is not None and mbps is not None:
                text = f"gives bandwidths in place of {way:g} Mbit/s; leave one of them out"
                raise ScenarioError("file", text)
        rows = self.bandwidths.by_client
        rows.check_clients(count)
        if self._names is not None or not rows.by_name:
            rows.check_members(ids(), OF_GROUP)

    def transfer_s(self, way: int, ids: Ints, size: Floats, start_s: Floats) -> Floats | None:
        """Return the seconds (K,) of downloads (0) or uploads (1), latency apart.

        None if the file has no bandwidths for them.
        """
        if self.bandwidths is None or self.bandwidths.mbps[way] is None:
            return None
        return self.bandwidths.seconds(way, ids, size, start_s)


@dataclass(frozen=True)
class Group:
    """Clients with settings of their own; None keeps the population's setting.

    Parameters
    ----------
    ids : tuple of int, optional
        Its members.
    count : int
        Number of members, drawn from the seed, if `ids` is None.
    """

    name: str = ""
    ids: tuple[int, ...] | None = None
    count: int = 0
    delay: Delay | None = None
    network: Connection | None = None
    availability: Availability | None = None
    crash: Crash | None = None
    capacity: float | None = None
    energy: Energy | None = None

    @property
    def size(self) -> int:
        """Number of clients in the group."""
        return self.count if self.ids is None else len(self.ids)


@dataclass(frozen=True)
class Population:
    """The N clients and their timing.

    Parameters
    ----------
    count : int
        Number N of clients, with ids 0 to N - 1 below 2**32.
    seed : int
        Seed of the run.
    delay : Delay
        Seconds of one local step.
    stragglers, network, availability, crash
        Defaults for clients whose group does not override them.
    groups : tuple of Group
        Clients with other settings. Explicit ids are assigned first; the other groups divide a
        keyed permutation of the remaining ids, so that looking up the group of an id is O(1).
    capacity : float or tuple of float
        Share of the units of a hidden layer that a client trains, with methods that train parts of
        a model. Several shares are those of equal parts of the population, of which the first has
        the clients with the shortest mean step.
    energy : Energy, optional
        Energy of the devices; not recorded if None, except for groups with settings of their own.
    names : tuple of str
        Names of the N clients in the user's data; empty if they have none.
    ranks, sizes, holds : array, optional
        What is known of the clients' data; see `PopulationInfo`.

    Raises
    ------
    ScenarioError
        If an explicit id is out of range or in two groups, if the groups have more than N clients,
        or if an availability does not fit the number of clients.

    Examples
    --------
    >>> phones = Group("phones", ids=(0, 3), network=Connection(up_mbps=8.0))
    >>> population = Population(count=5, seed=0, groups=(phones,))
    >>> population.group_of(np.arange(5))
    array([1, 0, 0, 1, 0])
    >>> down, up = population.transfer_s(np.arange(2), 1e6, 1e6)
    >>> up
    array([1., 0.])
    """

    count: int
    seed: int
    delay: Delay = field(default_factory=ConstantDelay)
    stragglers: Stragglers = field(default_factory=Stragglers)
    network: Connection = field(default_factory=Connection)
    availability: Availability = field(default_factory=Always)
    groups: tuple[Group, ...] = ()
    crash: Crash = field(default_factory=Crash)
    capacity: float | tuple[float, ...] = 1.0
    energy: Energy | None = None
    names: tuple[str, ...] = field(default=(), compare=False, repr=False)
    ranks: Ints | None = field(default=None, compare=False, repr=False)
    sizes: Ints | None = field(default=None, compare=False, repr=False)
    holds: Bools | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        for availability in self._availabilities:
            availability.check(self.info)
        named, times = np.unique([i for g in self.groups for i in g.ids or ()], return_counts=True)
        outside = named[(named < 0) | (named >= self.count)]
        if len(outside):
            text = f"found id {int(outside[0])}; ids go from 0 to {self.count - 1}"
            raise ScenarioError("clients.groups", text)
        if (times > 1).any():
            text = f"found id {int(named[times > 1][0])} twice; list it once, in one group"
            raise ScenarioError("clients.groups", text)
        claimed = sum(group.size for group in self.groups)
        if claimed > self.count:
            text = f"the groups have {claimed} clients, but clients.count is {self.count}"
            raise ScenarioError("clients.groups", f"{text}; give fewer")
        for index, (delay, network) in enumerate(zip(self._delays, self._networks, strict=True)):
            group = self.groups[index - 1] if index else Group()
            own = f"clients.groups.{index - 1}"
            with under(f"{own if group.delay else 'clients'}.delay"):
                delay.check()
                delay.check_clients(self.count)
                if delay.numbered:
                    delay.check_members(self._members(index))
            with under(f"{own if group.network else 'clients'}.network"):
                network.check(self.count, partial(self._members, index))
            energy = self.energies[index]
            with under(f"{own if group.energy else 'clients'}.energy"):
                energy.check()
                if energy.compute_w is None and delay.watts(np.array([0.5])) is None:
                    text = "is missing; give watts, or a delay trace with a column watts"
                    raise ScenarioError("compute_w", text)
                if energy.battery is not None:
                    self._check_battery(index)

    def _check_battery(self, index: int) -> None:
        """Refuse transfers of a group that take energy and no time, in which no battery can end."""
        energy, network = self.energies[index].transfers, self._networks[index]
        ids = self._members(index)
        latency, *rates = self.links(ids)
        joules = (energy.down_j_per_mb, energy.up_j_per_mb)
        for way, (name, key) in enumerate((("downloads", "down_mbps"), ("uploads", "up_mbps"))):
            traced = network.transfer_s(way, ids[:1], np.ones(1), np.zeros(1)) is not None
            if joules[way] and not traced and (np.isinf(rates[way]) & (latency == 0)).any():
                text = f"takes {joules[way]:g} J/MB for {name} that take no time"
                raise ScenarioError("battery", f"{text}; give network.{key} or latency_s")

    @property
    def needs(self) -> frozenset[Need]:
        """Needed properties of the clients' data, for some availability."""
        return frozenset[Need]().union(*(part.needs for part in self._availabilities))

    @cached_property
    def info(self) -> PopulationInfo:
        """Population properties for availabilities."""
        return PopulationInfo(self.count, self.seed, self.ranks, self.sizes, self.holds)

    @cached_property
    def numbered(self) -> bool:
        """Whether a delay gives seconds by round or by the number of a client's task."""
        return any(delay.numbered for delay in self._delays)

    @property
    def by_round(self) -> bool:
        """Whether an availability depends on the number of the round."""
        return any(part.by_round for part in self._availabilities)

    def group_of(self, ids: npt.ArrayLike) -> Ints:
        """Return the group (K,) of each client: 0 for none, i + 1 for ``groups[i]``."""
        ids = np.asarray(ids, dtype=np.int64)
        if not self.groups:
            return np.zeros(len(ids), dtype=np.int64)
        named, owner = self._named
        at = np.searchsorted(named, ids)
        explicit = at < len(named)
        explicit[explicit] = named[at[explicit]] == ids[explicit]
        groups = np.zeros(len(ids), dtype=np.int64)
        groups[explicit] = owner[at[explicit]]
        bounds, keyed = self._keyed
        if len(bounds) and len(named) < self.count:
            rank = (ids - at)[~explicit]  # among the ids that no group names
            permutation = Key(self.seed, "groups").permutation(self.count - len(named))
            groups[~explicit] = keyed[np.searchsorted(bounds, permutation(rank), side="right")]
        return groups

    def capacities(self) -> Floats:
        """Return the capacity (N,) of each client."""
        ids = np.arange(self.count)
        shares = self.capacity if isinstance(self.capacity, tuple) else (self.capacity,)
        order = np.argsort(self.mean_seconds_per_step(ids), kind="stable")
        found = np.empty(self.count)
        for share, part in zip(shares, np.array_split(order, len(shares)), strict=True):
            found[part] = share
        for index, group in enumerate(self.groups, 1):
            if group.capacity is not None:
                found[self._members(index)] = group.capacity
        return found

    def _members(self, group: int) -> Ints:
        """Return the ids of a group, ascending; 0 is that of clients in none."""
        ids = np.arange(self.count)
        return np.flatnonzero(self.group_of(ids) == group)

    def straggles(self, ids: npt.ArrayLike) -> Bools:
        """Return which clients (K,) are stragglers."""
        ids = np.asarray(ids, dtype=np.int64)
        slow = rounded(self.stragglers.fraction, self.count)
        if slow == 0:
            return np.zeros(len(ids), dtype=np.bool_)
        return np.asarray(Key(self.seed, "stragglers").permutation(self.count)(ids) < slow)

    @cached_property
    def by_sample(self) -> bool:
        """Whether a delay gives the seconds of a sample, so that a step takes them for each row."""
        return any(delay.by_sample for delay in self._delays)

    def seconds_per_step(
        self, ids: npt.ArrayLike, draw: Draw, ask: int, rows: Floats | None = None
    ) -> Floats:
        """Return the seconds (K,) of one local step, drawn once per client and Ask.

        Parameters
        ----------
        ids : (K,) array of int
        draw : int or (K,) array of int
            Coordinate of the draw in addition to `ask`: the round, for all clients or for each.
        ask : int
            Number of the Ask in it.
        rows : (K,) array of float, optional
            Rows of a step, for delays that give the seconds of a sample; 1 if None.
        """
        ids = np.asarray(ids, dtype=np.int64)

        def drawn(delay: Delay, at: Which) -> Floats:
            return delay.step_seconds(ids[at], part_of(draw, at), ask, seed=self.seed)

        seconds = self._of_rows(self._by_group(ids, self._delays, drawn), ids, rows)
        return seconds * self._slowdown(ids) if self.stragglers.fraction else seconds

    def mean_seconds_per_step(self, ids: npt.ArrayLike, rows: Floats | None = None) -> Floats:
        """Return the mean seconds (K,) of one local step over the rounds, slowdown included.

        Those of a client whose draw never changes are its own; `rows` is as for
        `seconds_per_step`.
        """
        return self._typical(ids, rows, lambda delay, own: delay.means(own, seed=self.seed))

    def quick_seconds_per_step(
        self, ids: npt.ArrayLike, share: float, rows: Floats | None = None
    ) -> Floats:
        """Return the seconds (K,) of one local step that a share of the draws stays below."""

        def quick(delay: Delay, own: Ints) -> Floats:
            return delay.quick_seconds(own, share, seed=self.seed)

        return self._typical(ids, rows, quick)

    def _typical(
        self, ids: npt.ArrayLike, rows: Floats | None, seconds: Callable[[Delay, Ints], Floats]
    ) -> Floats:
        """Return seconds of steps (K,) by the delay of each client, slowdown included."""
        ids = np.asarray(ids, dtype=np.int64)
        found = self._by_group(ids, self._delays, lambda delay, at: seconds(delay, ids[at]))
        return np.asarray(self._slowdown(ids) * self._of_rows(found, ids, rows))

    @cached_property
    def unsteady(self) -> bool:
        """Whether a bandwidth changes over time."""
        return any(network.file is not None for network in self._networks)

    def transfer_s(
        self,
        ids: npt.ArrayLike,
        bytes_down: float | Array,
        bytes_up: float | Array,
        start_s: float | Floats = 0.0,
        compute_s: float | Floats = 0.0,
    ) -> tuple[Floats, Floats]:
        """Return the seconds of the download (K,) and of the upload (K,).

        Parameters
        ----------
        ids : (K,) array of int
        bytes_down, bytes_up : float or (K,) array
        start_s, compute_s : float or (K,) array
            When downloads begin, and what clients compute between download and upload, which
            matters where bandwidths change. A download follows its latency, and an upload comes
            before it.
        """
        if self._instant:
            nothing = np.zeros(np.shape(ids))
            return nothing, nothing
        latency, down, up = self.links(ids)
        down_s, up_s = _BITS / down * bytes_down, _BITS / up * bytes_up
        if self.unsteady:
            ids = np.asarray(ids, dtype=np.int64)
            down_s = self._traced(0, ids, bytes_down, start_s + latency, down_s)
            sent_s = start_s + latency + down_s + compute_s
            up_s = self._traced(1, ids, bytes_up, sent_s, up_s)
        return latency + down_s, latency + up_s

    def _traced(
        self, way: int, ids: Ints, size: float | Array, start_s: Floats, steady_s: Floats
    ) -> Floats:
        """Return seconds (K,) of transfers, those of a file where clients have one."""
        seconds, groups = steady_s.copy(), self.group_of(ids)
        sizes = np.broadcast_to(np.asarray(size, dtype=np.float64), ids.shape)
        for group in np.unique(groups).tolist():
            at = groups == group
            own = self._networks[group].transfer_s(way, ids[at], sizes[at], start_s[at])
            seconds[at] = steady_s[at] if own is None else own
        return seconds

    def links(self, ids: npt.ArrayLike) -> tuple[Floats, Floats, Floats]:
        """Return the latency (K,) in seconds, and the Mbit/s (K,) down and up: inf if unlimited."""
        ids = np.asarray(ids, dtype=np.int64)
        latency, down, up = self._links
        if self.groups:
            group = self.group_of(ids)
            latency, down, up = latency[group], down[group], up[group]
        if any(delay.linked for delay in self._delays):
            devices = (self._by_device(ids, way) for way in (0, 1))
            down, up = (
                np.where(np.isfinite(own), own, of)
                for own, of in zip((down, up), devices, strict=True)
            )
        nothing = np.zeros(len(ids))  # broadcasts a setting shared by all
        return nothing + latency, nothing + down, nothing + up

    @property
    def metered(self) -> bool:
        """Whether the energy of some clients is recorded."""
        return any(part is not None for part in (self.energy, *(g.energy for g in self.groups)))

    @cached_property
    def energies(self) -> list[Energy]:
        """The energy of clients in no group, then that of each group; none where not recorded."""
        every = Energy(compute_w=0.0) if self.energy is None else self.energy
        return [every, *(group.energy or every for group in self.groups)]

    def watts(self, ids: npt.ArrayLike) -> Floats | None:
        """Return the power (K,) in watts while computing; None if energy is not recorded."""
        if not self.metered:
            return None
        ids = np.asarray(ids, dtype=np.int64)

        def power(part: tuple[Energy, Delay], at: Which) -> Floats:
            energy, delay = part
            if energy.compute_w is not None:
                return np.full(len(ids[at]), energy.compute_w)
            watts = delay.watts(delay.uniforms(ids[at], 0, 0, seed=self.seed))
            assert watts is not None  # as was checked
            return watts

        return self._by_group(ids, list(zip(self.energies, self._delays, strict=True)), power)

    def half_duplex(self, ids: npt.ArrayLike) -> Bools:
        """Return a mask (K,) of half-duplex connections."""
        half = np.array([network.duplex == "half" for network in self._networks])
        return half[self.group_of(ids)]

    @cached_property
    def lossy(self) -> bool:
        """Whether some connection may break."""
        return any(network.loss for network in self._networks)

    def lost(self, ids: npt.ArrayLike, draw: Draw, ask: int) -> Floats:
        """Return the share (K,) of an Ask after which the connection breaks; inf if it holds.

        `draw` and `ask` are as for `seconds_per_step`.
        """
        ids = np.asarray(ids, dtype=np.int64)
        loss = np.array([network.loss for network in self._networks])
        u = Key(self.seed, "network/loss").uniforms(ids, 2, round=draw, ask=ask)
        return np.where(u[:, 0] < loss[self.group_of(ids)], u[:, 1], np.inf)

    @cached_property
    def crashing(self) -> bool:
        """Whether some client may crash."""
        return any(crash.probability for crash in self.crash_settings)

    def crashes(self, ids: npt.ArrayLike, draw: Draw, ask: int) -> Crashes:
        """Return the costs of crashes for clients (K,) in an Ask.

        `draw` and `ask` are as for `seconds_per_step`.
        """
        ids = np.asarray(ids, dtype=np.int64)
        each = self.crash_settings
        restarts = [np.inf if c.restart_s is None else c.restart_s for c in each]
        u = Key(self.seed, "crash").uniforms(ids, 2 * TRIES, round=draw, ask=ask)
        groups = self.group_of(ids)
        active = np.stack([np.broadcast_to(c.active(draw), ids.shape) for c in each])
        probability = np.array([c.probability for c in each])[groups]
        probability = np.where(active[groups, np.arange(len(ids))], probability, 0.0)
        return Crashes.of(u, probability, np.array(restarts)[groups])

    @cached_property
    def always(self) -> bool:
        """Whether every client is always available."""
        return all(type(part) is Always for part in self._availabilities)

    def available(self, ids: npt.ArrayLike, t: Times, round: int) -> Bools:
        """Return which clients (K,) are available at virtual second t of a round (from 1).

        With `own_times`, `t` may be an array (K,).
        """
        ids = np.asarray(ids, dtype=np.int64)
        if self.always:
            return np.ones(len(ids), dtype=np.bool_)

        def there(availability: Availability, at: Which) -> Bools:
            times = t[at] if isinstance(t, np.ndarray) else t
            return availability.available(ids[at], times, round, self.info)

        return self._by_group(ids, self._availabilities, there)

    def chance(self, ids: npt.ArrayLike, t: float, round: int) -> Floats | None:
        """Return the probability of availability (K,) at virtual second t of a round (from 1).

        None if an availability of some of all clients does not say it.
        """
        ids = np.asarray(ids, dtype=np.int64)
        parts = self._availabilities
        if any(part.chance(np.arange(1), t, round, self.info) is None for part in parts):
            return None

        def chances(availability: Availability, at: Which) -> Floats:
            found = availability.chance(ids[at], t, round, self.info)
            assert found is not None
            return found

        return self._by_group(ids, parts, chances)

    @property
    def own_times(self) -> bool:
        """Whether `available` and `next_change` take a time for each client."""
        return all(part.own_times for part in self._availabilities)

    @property
    def independent(self) -> bool:
        """Whether each client comes and goes by draws of its own, on the clock."""
        return all(part.independent for part in self._availabilities)

    def comes_and_goes(self) -> bool:
        """Return whether the availability of some client changes with time."""
        return bool(np.isfinite(self.next_change(np.arange(self.count), 0.0)).any())

    def next_change(self, ids: npt.ArrayLike, t: Times) -> Floats:
        """Return the first second (K,) after t at which `available` changes; inf if never.

        An availability that depends on the round number never changes with time. With
        `own_times`, `t` may be an array (K,).
        """
        ids = np.asarray(ids, dtype=np.int64)
        if self.always:
            return np.full(len(ids), np.inf)

        def change(availability: Availability, at: Which) -> Floats:
            times = t[at] if isinstance(t, np.ndarray) else t
            return availability.next_change(ids[at], times, self.info)

        return self._by_group(ids, self._availabilities, change)

    def _by_device(self, ids: Ints, way: int) -> Floats:
        """Return the Mbit/s (K,) of the devices of a trace, down or up; inf without one."""

        def mbps(delay: Delay, at: Which) -> Floats:
            if not delay.linked:
                return np.full(len(ids[at]), np.inf)
            return delay.mbps(delay.uniforms(ids[at], 0, 0, seed=self.seed))[way]

        return self._by_group(ids, self._delays, mbps)

    def _of_rows(self, seconds: Floats, ids: Ints, rows: Floats | None) -> Floats:
        """Return seconds of steps (K,), where some delays gave those of a sample."""
        if rows is None or not self.by_sample:
            return seconds
        sampled = self._by_group(
            ids, self._delays, lambda d, at: np.full(len(ids[at]), d.by_sample)
        )
        return np.where(sampled, seconds * rows, seconds)

    def _slowdown(self, ids: Ints) -> Floats:
        return np.where(self.straggles(ids), self.stragglers.slowdown, 1.0)

    def _by_group(
        self,
        ids: Ints,
        parts: Sequence[Part],
        ask: Callable[[Part, Which], npt.NDArray[Scalar]],
    ) -> npt.NDArray[Scalar]:
        """Evaluate each group's setting for its clients and combine the results."""
        if len(parts) == 1 or not len(ids) or all(part == parts[0] for part in parts):
            return ask(parts[0], slice(None))
        group = self.group_of(ids)
        answers = {g: ask(parts[g], group == g) for g in np.unique(group).tolist()}
        combined = np.empty(len(ids), dtype=np.result_type(*answers.values()))
        for g, answer in answers.items():
            combined[group == g] = answer
        return combined

    # The settings of clients in no group, then those of each group.

    @cached_property
    def _delays(self) -> list[Delay]:
        return [self.delay, *(group.delay or self.delay for group in self.groups)]

    @cached_property
    def _availabilities(self) -> list[Availability]:
        own = (group.availability or self.availability for group in self.groups)
        return [self.availability, *own]

    @cached_property
    def _networks(self) -> list[Connection]:
        return [self.network, *(group.network or self.network for group in self.groups)]

    @cached_property
    def crash_settings(self) -> list[Crash]:
        """The crashes of clients in no group, then those of each group."""
        return [self.crash, *(group.crash or self.crash for group in self.groups)]

    @cached_property
    def _links(self) -> tuple[Floats, Floats, Floats]:
        """Latency in seconds, and Mbit/s down and up, for each group."""
        links = self._networks
        return (
            np.array([link.latency_s for link in links]),
            np.array([link.down_mbps or np.inf for link in links]),
            np.array([link.up_mbps or np.inf for link in links]),
        )

    @cached_property
    def _instant(self) -> bool:
        """Whether no transfer takes time."""
        latency, *rates = self._links
        limited = self.unsteady or any(delay.linked for delay in self._delays)
        return not (limited or latency.any() or np.isfinite(rates).any())

    @cached_property
    def _named(self) -> tuple[Ints, Ints]:
        """The explicit ids, ascending, and the group of each."""
        pairs = [(i, g) for g, group in enumerate(self.groups, 1) for i in group.ids or ()]
        table = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)
        return np.ascontiguousarray(table[:, 0]), np.ascontiguousarray(table[:, 1])

    @cached_property
    def _keyed(self) -> tuple[Ints, Ints]:
        """End of each other group's share of the permutation, and the group of each share."""
        keyed = [(g, part.count) for g, part in enumerate(self.groups, 1) if part.ids is None]
        ends = np.cumsum([count for _, count in keyed], dtype=np.int64)
        return ends, np.array([*(g for g, _ in keyed), 0], dtype=np.int64)
