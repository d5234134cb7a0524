"""Base class of topologies: sequences of graphs that link the clients.

Time is divided into epochs with one graph each. A topology maps a round or a virtual second to an
epoch, and draws the graph of any epoch from the seed alone, so there is no state to replay or to
save.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, ClassVar, Literal, Self, TypeAlias

import numpy as np
from annotated_types import Ge, Lt

from rayfed.core.arrays import Bools, Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.topology.connect import Components, components_of, connected
from rayfed.topology.graph import Graph

Policy: TypeAlias = Literal["refuse", "repair", "redraw", "allow"]

MOST_LINKS = 20_000_000
"""Largest number of links of a graph; a list of them takes half a gigabyte."""
MOST_CHECKED = 10_000
"""Largest number of clients whose graph is examined where it may stay disconnected."""
_TRIES = 1000
_LATE_S = 1e15  # beyond the end of every simulation
_CACHED = 2  # graphs that are cached: the current one and the one before


@dataclass(frozen=True)
class Routes:
    """Latency and bandwidth of links, in addition to those of the clients at their ends.

    Parameters
    ----------
    count : int
        Number N of clients.
    codes : (E,) array of int
        ``sender * N + receiver`` of each direction, ascending.
    latency_s : (E,) array of float
        Seconds.
    mbps : (E,) array of float
        Mbit/s; inf if unlimited.
    """

    count: int
    codes: Ints
    latency_s: Floats
    mbps: Floats

    def of(self, sender: Ints, receiver: Ints) -> tuple[Floats, Floats]:
        """Return seconds and Mbit/s (A,) from senders to receivers; 0 and inf of other links."""
        codes = sender * self.count + receiver
        place = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        known = self.codes[place] == codes
        return np.where(known, self.latency_s[place], 0.0), np.where(
            known, self.mbps[place], np.inf
        )


class Series:
    """The graphs of one population, before links fail and before repairs.

    Attributes
    ----------
    frames : int or None
        Number of graphs; None if unlimited.
    """

    frames: int | None = None

    def epoch(self, round: int, time_s: float) -> int:
        """Return the epoch, from 0, of a round (from 1) and virtual second."""
        raise NotImplementedError

    def draw(self, epoch: int, attempt: int) -> Graph:
        """Return the graph of an epoch; each attempt is an independent draw."""
        raise NotImplementedError

    def routes(self, epoch: int) -> Routes | None:
        """Return the latency and bandwidth of the links of an epoch, if they have any."""
        return None


@dataclass(frozen=True, kw_only=True)
class Topology:
    """Base of all topologies.

    Parameters
    ----------
    seed : int, optional
        Seed of the graphs, in place of the run's seed.
    loss : float
        Probability that a link is down during an epoch, independently of the others.
    disconnected : "refuse" or "repair" or "redraw" or "allow"
        What to do if the graph of the links that are up is not connected: raise an error, add the
        shortest missing links, draw the epoch again, or nothing.
    """

    name: ClassVar[str]
    drawn: ClassVar[bool] = False
    """Whether two draws of the same epoch can differ."""

    seed: int | None = None
    loss: Annotated[float, Ge(0), Lt(1)] = 0.0
    disconnected: Policy = "refuse"

    def __post_init__(self) -> None:
        if self.disconnected == "redraw" and not (self.drawn or self.loss):
            text = "found redraw, but every draw of this graph is the same"
            raise ScenarioError("disconnected", f"{text}; give refuse, repair or allow")

    def named(self, names: Sequence[str]) -> Self:
        """Return the topology of clients that the data name, empty if they do not."""
        return self

    def series(self, count: int, seed: int) -> Series:
        """Return the graphs of N = count clients.

        Raises
        ------
        ScenarioError
            If the settings do not fit the number of clients, or a file is invalid.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Graphs:
    """The graphs of a run, a pure function of (seed, round, virtual second).

    Parameters
    ----------
    topology : Topology
    count : int
        Number N of clients.
    seed : int
        Seed of the run; the topology's seed takes precedence.

    Examples
    --------
    >>> from rayfed.topology.shapes import Ring
    >>> Graphs(Ring(), 5, seed=0).at(round=1).neighbours(0).tolist()
    [1, 4]
    """

    topology: Topology
    count: int
    seed: int
    _cache: dict[int, tuple[Graph, bool | None]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def __reduce__(self) -> tuple[type[Graphs], tuple[Topology, int, int]]:
        return type(self), (self.topology, self.count, self.seed)  # without the cache

    def epoch(self, round: int, time_s: float = 0.0) -> int:
        """Return the epoch, from 0, of a round (from 1) and virtual second."""
        return self._series.epoch(round, time_s)

    @property
    def frames(self) -> int | None:
        """Number of graphs; None if unlimited."""
        return self._series.frames

    @property
    def fixed(self) -> bool:
        """Whether the graph never changes."""
        return self.frames == 1

    def lasts(self, round: int, time_s: float) -> bool:
        """Whether the graph that holds in a round at a virtual second stays while it lasts."""
        return self.epoch(round, time_s) == self.epoch(round, max(time_s, _LATE_S))

    def routes(self, epoch: int) -> Routes | None:
        """Return the latency and bandwidth of the links of an epoch, if they have any."""
        return self._series.routes(epoch)

    def check(self) -> None:
        """Build the first graph, and all of them if their number is limited.

        Raises
        ------
        ScenarioError
            If one is not connected and should be, or cannot be built.
        """
        for epoch in range(self.frames or 1):
            self.of(epoch)

    def at(self, round: int, time_s: float = 0.0) -> Graph:
        """Return the graph of a round (from 1) and virtual second.

        Raises
        ------
        ScenarioError
            If it is not connected and should be.
        """
        return self.of(self.epoch(round, time_s))

    def of(self, epoch: int) -> Graph:
        """Return the graph of an epoch, from 0; raises as `at` does."""
        return self._cached(epoch)[0]

    def connected(self, epoch: int) -> bool | None:
        """Return whether the links of an epoch connect all clients, before any repair.

        None if `disconnected` is "allow" and there are more than `MOST_CHECKED` clients, so that
        the cost of a walk does not grow with them.
        """
        graph, known = self._cached(epoch)
        if known is None and self.count <= MOST_CHECKED:
            known = components_of(graph).count == 1
            self._cache[epoch] = graph, known
        return known

    def repaired(self, epoch: int) -> bool:
        """Return whether links were added to connect all clients in an epoch."""
        return self.topology.disconnected == "repair" and not self.connected(epoch)

    def _cached(self, epoch: int) -> tuple[Graph, bool | None]:
        """Return the graph of an epoch, and whether it was connected, as far as is known."""
        if epoch not in self._cache:
            made = self._make(epoch)
            while len(self._cache) >= _CACHED:
                self._cache.pop(next(iter(self._cache)))
            self._cache[epoch] = made
        return self._cache[epoch]

    @cached_property
    def _series(self) -> Series:
        return self.topology.series(self.count, self._key.seed)

    @property
    def _key(self) -> Key:
        seed = self.topology.seed
        return Key(self.seed if seed is None else seed, "topology")

    def _make(self, epoch: int) -> tuple[Graph, bool | None]:
        policy = self.topology.disconnected
        for attempt in range(_TRIES if policy == "redraw" else 1):
            graph = self._draw(epoch, attempt)
            if policy == "allow":
                return graph, None
            components = components_of(graph)
            if components.count == 1:
                return graph, True
            if policy == "repair":
                return connected(graph, components, self._key.sub("repair"), epoch), False
        raise ScenarioError("topology", _disconnected(epoch, graph, components, policy))

    def _draw(self, epoch: int, attempt: int) -> Graph:
        """Return the graph of an epoch without the links that are down."""
        graph, loss = self._series.draw(epoch, attempt), self.topology.loss
        if not loss:
            return graph
        key = self._key.sub(f"loss{epoch}")

        def down(low: Ints, high: Ints) -> Bools:
            return key.uniforms(low, round=high, ask=attempt) < loss

        return graph.without(down)


def _disconnected(epoch: int, graph: Graph, components: Components, policy: Policy) -> str:
    """Return the error message for a graph that is not connected."""
    few = components.smallest()
    if graph.directed:
        text = f"graph {epoch} has no way from client {few[0]} to some other client, or none back"
    elif len(few) == 1:
        text = f"client {few[0]} has no link in graph {epoch}"
    else:
        ids = ", ".join(map(str, few[:5])) + (", ..." if len(few) > 5 else "")
        text = f"graph {epoch} is in {components.count} parts, one with clients {ids} alone"
    tried = f", in none of {_TRIES} draws is it connected" if policy == "redraw" else ""
    return f"{text}{tried}; link more clients, or set disconnected to repair or allow"


def refuse_large(links: float) -> None:
    """Refuse a graph with too many links for memory.

    Raises
    ------
    ScenarioError
        If there are more than `MOST_LINKS`.
    """
    if links > MOST_LINKS:
        text = f"asks for {links:,.0f} links, but the limit is {MOST_LINKS:,}"
        raise ScenarioError("topology", f"{text}; link fewer clients")
