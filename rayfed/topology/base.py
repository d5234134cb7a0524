"""What a topology is: the graphs that link the clients, one after another.

Time is cut into epochs, in each of which the graph stays as it is. A topology says which epoch a
round or a virtual second belongs to, and draws the graph of any epoch from the seed alone: there
is nothing to replay and nothing to save.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, ClassVar, Literal, TypeAlias

from annotated_types import Ge, Lt

from rayfed.core.arrays import Bools, Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.topology.connect import Parts, joined, parts
from rayfed.topology.graph import Graph

Policy: TypeAlias = Literal["refuse", "repair", "redraw", "allow"]

MOST_LINKS = 20_000_000
"""Links that a graph may have: a list of so many takes half a gigabyte."""
_TRIES = 1000
_LATE_S = 1e15  # no clock gets there
_KEPT = 2  # graphs that are remembered: the one that holds, and the one before


class Series:
    """The graphs of one population, before links fail and before they are mended.

    Attributes
    ----------
    frames : int or None
        How many there are; None if there is no end of them.
    """

    frames: int | None = None

    def epoch(self, round: int, time_s: float) -> int:
        """Return which graph, from 0, holds in a round (from 1) at a virtual second."""
        raise NotImplementedError

    def draw(self, epoch: int, attempt: int) -> Graph:
        """Return the graph of an epoch; another draw of it for another attempt."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Topology:
    """Base of all topologies.

    Parameters
    ----------
    seed : int, optional
        Fixes the graphs apart from the run's seed.
    loss : float
        Probability that a link is down during an epoch, each by itself.
    disconnected : "refuse" or "repair" or "redraw" or "allow"
        What is done where the links that are up leave the clients in several parts: end with one
        line, add the shortest missing links, draw the epoch again, or nothing.
    """

    name: ClassVar[str]
    drawn: ClassVar[bool] = False
    """Whether another draw of the same epoch can differ."""

    seed: int | None = None
    loss: Annotated[float, Ge(0), Lt(1)] = 0.0
    disconnected: Policy = "refuse"

    def __post_init__(self) -> None:
        if self.disconnected == "redraw" and not (self.drawn or self.loss):
            found = "found redraw, but every draw of this graph is the same"
            raise ScenarioError("disconnected", f"{found}; give refuse, repair or allow")

    def series(self, count: int, seed: int) -> Series:
        """Return the graphs of N = count clients.

        Raises
        ------
        ScenarioError
            If the settings do not fit so many clients, or a file is wrong.
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
        Seed of the run; that of the topology goes first.

    Examples
    --------
    >>> from rayfed.topology.named import Ring
    >>> Graphs(Ring(), 5, seed=0).at(round=1).neighbours(0).tolist()
    [1, 4]
    """

    topology: Topology
    count: int
    seed: int
    _made: dict[int, Graph] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __reduce__(self) -> tuple[type[Graphs], tuple[Topology, int, int]]:
        return type(self), (self.topology, self.count, self.seed)  # without what it remembers

    def epoch(self, round: int, time_s: float = 0.0) -> int:
        """Return which graph, from 0, holds in a round (from 1) at a virtual second."""
        return self._series.epoch(round, time_s)

    @property
    def fixed(self) -> bool:
        """Whether there is one graph for good."""
        return self._series.frames == 1

    def lasts(self, round: int, time_s: float) -> bool:
        """Whether the graph that holds in a round at a virtual second stays while it lasts."""
        return self.epoch(round, time_s) == self.epoch(round, max(time_s, _LATE_S))

    def check(self) -> None:
        """Make the first graph, and all of them where there is an end of them.

        Raises
        ------
        ScenarioError
            If one is not connected and should be, or cannot be made.
        """
        for epoch in range(self._series.frames or 1):
            self.of(epoch)

    def at(self, round: int, time_s: float = 0.0) -> Graph:
        """Return the graph that holds in a round (from 1) at a virtual second.

        Raises
        ------
        ScenarioError
            If it is not connected and should be.
        """
        return self.of(self.epoch(round, time_s))

    def of(self, epoch: int) -> Graph:
        """Return the graph of an epoch, from 0; raises as `at` does."""
        if epoch not in self._made:
            made = self._make(epoch)
            while len(self._made) >= _KEPT:
                self._made.pop(next(iter(self._made)))
            self._made[epoch] = made
        return self._made[epoch]

    @cached_property
    def _series(self) -> Series:
        return self.topology.series(self.count, self._key.seed)

    @property
    def _key(self) -> Key:
        own = self.topology.seed
        return Key(self.seed if own is None else own, "topology")

    def _make(self, epoch: int) -> Graph:
        policy = self.topology.disconnected
        for attempt in range(_TRIES if policy == "redraw" else 1):
            graph = self._up(epoch, attempt)
            if policy == "allow":
                return graph
            found = parts(graph)
            if found.count == 1:
                return graph
            if policy == "repair":
                return joined(graph, found, self._key.sub("repair"), epoch)
        raise ScenarioError("topology", _apart(epoch, graph, found, policy))

    def _up(self, epoch: int, attempt: int) -> Graph:
        """Return the links of an epoch that have not failed."""
        graph, loss = self._series.draw(epoch, attempt), self.topology.loss
        if not loss:
            return graph
        key = self._key.sub(f"loss{epoch}")

        def down(low: Ints, high: Ints) -> Bools:
            return key.uniforms(low, round=high, ask=attempt) < loss

        return graph.without(down)


def _apart(epoch: int, graph: Graph, found: Parts, policy: Policy) -> str:
    """Return the sentence for a graph that is not connected."""
    few = found.smallest()
    if len(few) == 1:
        text = f"client {few[0]} has no link in graph {epoch}"
    else:
        ids = ", ".join(map(str, few[:5])) + (", ..." if len(few) > 5 else "")
        text = f"graph {epoch} is in {found.count} parts, one with clients {ids} alone"
    tried = f", in none of {_TRIES} draws is it whole" if policy == "redraw" else ""
    return f"{text}{tried}; link more clients, or set disconnected to repair or allow"


def refuse_large(links: float) -> None:
    """Refuse a graph with more links than memory should hold.

    Raises
    ------
    ScenarioError
        If there are more than `MOST_LINKS`.
    """
    if links > MOST_LINKS:
        found = f"asks for {links:,.0f} links, but {MOST_LINKS:,} are the most"
        raise ScenarioError("topology", f"{found}; link fewer clients")
