"""The population: how fast each client computes, how fast it is connected, when it is there.

Everything is a pure function of client ids, keyed by the run's seed alone: all algorithms of a
study meet the same clients, and a million registered clients cost nothing until they are asked
about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, TypeVar

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt, Le

from rayfed.core.arrays import Bools, Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Draw, Key
from rayfed.population.availability import Always, Availability, PopulationInfo
from rayfed.population.delay import Constant, Delay

Part = TypeVar("Part")
Scalar = TypeVar("Scalar", np.bool_, np.float64)

_BITS = 8e-6  # megabits in a byte


@dataclass(frozen=True)
class Stragglers:
    """A fixed set of clients that compute slowly.

    Parameters
    ----------
    fraction : float
        Share of the population; ``round(fraction * N)`` clients.
    slowdown : float
        Factor on the seconds of their steps.
    """

    fraction: Annotated[float, Ge(0), Le(1)] = 0.0
    slowdown: Annotated[float, Gt(0)] = 1.0


@dataclass(frozen=True)
class Network:
    """The connection of a client.

    Parameters
    ----------
    down_mbps, up_mbps : float, optional
        Megabits per second; a transfer is free of time if None.
    latency_s : float
        Seconds that every transfer takes on top, in each direction.
    """

    down_mbps: Annotated[float, Gt(0)] | None = None
    up_mbps: Annotated[float, Gt(0)] | None = None
    latency_s: Annotated[float, Ge(0)] = 0.0


@dataclass(frozen=True)
class Group:
    """Some clients that differ; None keeps what the population says.

    Parameters
    ----------
    ids : tuple of int, optional
        Who belongs to it.
    count : int
        How many clients the seed chooses where `ids` is None.
    """

    name: str = ""
    ids: tuple[int, ...] | None = None
    count: int = 0
    delay: Delay | None = None
    network: Network | None = None
    availability: Availability | None = None

    @property
    def size(self) -> int:
        """Number of clients that the group claims."""
        return self.count if self.ids is None else len(self.ids)


@dataclass(frozen=True)
class Population:
    """N clients, as the simulated clock sees them.

    Parameters
    ----------
    count : int
        Number N of clients, with ids 0 to N - 1 below 2**32.
    seed : int
        Seed of the run.
    delay : Delay
        Seconds of one local step.
    stragglers, network, availability
        Of every client that belongs to no group which says otherwise.
    groups : tuple of Group
        Clients that differ. Explicit ids come first; the other groups share out a keyed
        permutation of the remaining ids, so that the membership of an id costs O(1).
    ranks : (N,) array of int, optional
        The place of every client in the order of their labels, where an availability needs it.

    Raises
    ------
    ScenarioError
        If an explicit id is out of range or in two groups, if the groups claim more than N, or
        if an availability does not fit so many clients.

    Examples
    --------
    >>> phones = Group("phones", ids=(0, 3), network=Network(up_mbps=8.0))
    >>> population = Population(count=5, seed=0, groups=(phones,))
    >>> population.group_of(np.arange(5))
    array([1, 0, 0, 1, 0])
    >>> down, up = population.transfer_s(np.arange(2), 1e6, 1e6)
    >>> up
    array([1., 0.])
    """

    count: int
    seed: int
    delay: Delay = field(default_factory=Constant)
    stragglers: Stragglers = field(default_factory=Stragglers)
    network: Network = field(default_factory=Network)
    availability: Availability = field(default_factory=Always)
    groups: tuple[Group, ...] = ()
    ranks: Ints | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        for part in self._parts:
            (part.availability or self.availability).check(self._crowd)
        named, times = np.unique([i for g in self.groups for i in g.ids or ()], return_counts=True)
        outside = named[(named < 0) | (named >= self.count)]
        if len(outside):
            found = f"found id {int(outside[0])}; ids go from 0 to {self.count - 1}"
            raise ScenarioError("clients.groups", found)
        if (times > 1).any():
            found = f"found id {int(named[times > 1][0])} twice; list it once, in one group"
            raise ScenarioError("clients.groups", found)
        claimed = sum(group.size for group in self.groups)
        if claimed > self.count:
            found = f"the groups claim {claimed} clients, but clients.count is {self.count}"
            raise ScenarioError("clients.groups", f"{found}; claim fewer")

    @property
    def needs_labels(self) -> bool:
        """Whether an availability goes by the clients' labels."""
        return any((part.availability or self.availability).needs_labels for part in self._parts)

    def group_of(self, ids: npt.ArrayLike) -> Ints:
        """Return the group (K,) of each client: 0 for none, i + 1 for ``groups[i]``."""
        ids = np.asarray(ids, dtype=np.int64)
        if not self.groups:
            return np.zeros(len(ids), dtype=np.int64)
        named, owner = self._named
        at = np.searchsorted(named, ids)
        found = at < len(named)
        found[found] = named[at[found]] == ids[found]
        groups = np.zeros(len(ids), dtype=np.int64)
        groups[found] = owner[at[found]]
        bounds, keyed = self._keyed
        if len(bounds) and len(named) < self.count:
            rank = (ids - at)[~found]  # among the ids that no group names
            walk = Key(self.seed, "groups").permutation(self.count - len(named))
            groups[~found] = keyed[np.searchsorted(bounds, walk(rank), side="right")]
        return groups

    def straggles(self, ids: npt.ArrayLike) -> Bools:
        """Return which clients (K,) are stragglers."""
        ids = np.asarray(ids, dtype=np.int64)
        slow = round(self.stragglers.fraction * self.count)
        if slow == 0:
            return np.zeros(len(ids), dtype=np.bool_)
        return np.asarray(Key(self.seed, "stragglers").permutation(self.count)(ids) < slow)

    def seconds_per_step(self, ids: npt.ArrayLike, draw: Draw, ask: int) -> Floats:
        """Return the seconds (K,) of one local step, drawn once per client and Ask.

        Parameters
        ----------
        ids : (K,) array of int
        draw : int or (K,) array of int
            Coordinate of the draw beside `ask`: the round, for all clients or for each.
        ask : int
            Number of the Ask in it.
        """
        ids = np.asarray(ids, dtype=np.int64)
        delays = [g.delay or self.delay for g in self._parts]
        if any(delay.random for delay in delays):
            u = Key(self.seed, "delay").uniforms(ids, round=draw, ask=ask)
        else:
            u = np.empty(len(ids))
        seconds = self._each(ids, delays, lambda d, at: d.quantile(u[at]))
        return seconds * self._slowdown(ids) if self.stragglers.fraction else seconds

    def mean_seconds_per_step(self, ids: npt.ArrayLike) -> Floats:
        """Return the mean seconds (K,) of one local step, slowdown included."""
        ids = np.asarray(ids, dtype=np.int64)
        delays = [g.delay or self.delay for g in self._parts]
        means = self._each(ids, delays, lambda d, at: np.full(int(at.sum()), d.mean()))
        return np.asarray(self._slowdown(ids) * means)

    def transfer_s(
        self, ids: npt.ArrayLike, bytes_down: float | Floats, bytes_up: float | Floats
    ) -> tuple[Floats, Floats]:
        """Return the seconds of the download (K,) and of the upload (K,) of so many bytes.

        Parameters
        ----------
        ids : (K,) array of int
        bytes_down, bytes_up : float or (K,) array
        """
        ids = np.asarray(ids, dtype=np.int64)
        latency, down, up = self._links
        if self.groups:
            group = self.group_of(ids)
            latency, down, up = latency[group], down[group], up[group]
        nothing = np.zeros(len(ids))  # one link for all is spread over them
        return nothing + (latency + down * bytes_down), nothing + (latency + up * bytes_up)

    def available(self, ids: npt.ArrayLike, t: float, round: int) -> Bools:
        """Return which clients (K,) can be reached at virtual second t of a round (from 1)."""
        ids = np.asarray(ids, dtype=np.int64)
        parts = [g.availability or self.availability for g in self._parts]
        return self._each(ids, parts, lambda a, at: a.available(ids[at], t, round, self._crowd))

    def next_change(self, ids: npt.ArrayLike, t: float) -> Floats:
        """Return the first second (K,) after t at which `available` changes; inf if never.

        An availability that is governed by the round number never changes with time.
        """
        ids = np.asarray(ids, dtype=np.int64)
        parts = [g.availability or self.availability for g in self._parts]
        return self._each(ids, parts, lambda a, at: a.next_change(ids[at], t, self._crowd))

    def _slowdown(self, ids: Ints) -> Floats:
        return np.where(self.straggles(ids), self.stragglers.slowdown, 1.0)

    def _each(
        self,
        ids: Ints,
        parts: Sequence[Part],
        ask: Callable[[Part, Bools], npt.NDArray[Scalar]],
    ) -> npt.NDArray[Scalar]:
        """Ask the part of each group about its own clients and put the answers together."""
        if len(parts) == 1 or not len(ids) or all(part == parts[0] for part in parts):
            return ask(parts[0], np.ones(len(ids), dtype=np.bool_))
        group = self.group_of(ids)
        answers = {g: ask(parts[g], group == g) for g in np.unique(group).tolist()}
        whole = np.empty(len(ids), dtype=np.result_type(*answers.values()))
        for g, answer in answers.items():
            whole[group == g] = answer
        return whole

    @cached_property
    def _parts(self) -> tuple[Group, ...]:
        return (Group(), *self.groups)

    @cached_property
    def _links(self) -> tuple[Floats, Floats, Floats]:
        """Seconds of a transfer, of a byte down and of a byte up, for each group."""
        links = [g.network or self.network for g in self._parts]
        return (
            np.array([link.latency_s for link in links]),
            np.array([_seconds_per_byte(link.down_mbps) for link in links]),
            np.array([_seconds_per_byte(link.up_mbps) for link in links]),
        )

    @cached_property
    def _crowd(self) -> PopulationInfo:
        return PopulationInfo(self.count, self.seed, self.ranks)

    @cached_property
    def _named(self) -> tuple[Ints, Ints]:
        """The explicit ids, ascending, and the group of each."""
        pairs = [(i, g) for g, group in enumerate(self.groups, 1) for i in group.ids or ()]
        table = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)
        return np.ascontiguousarray(table[:, 0]), np.ascontiguousarray(table[:, 1])

    @cached_property
    def _keyed(self) -> tuple[Ints, Ints]:
        """The ends of the other groups' shares of the permutation, and who owns each share."""
        keyed = [(g, part.count) for g, part in enumerate(self.groups, 1) if part.ids is None]
        ends = np.cumsum([count for _, count in keyed], dtype=np.int64)
        return ends, np.array([*(g for g, _ in keyed), 0], dtype=np.int64)


def _seconds_per_byte(mbps: float | None) -> float:
    return 0.0 if mbps is None else _BITS / mbps
