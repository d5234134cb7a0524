"""Topologies with graphs by round, or fixed ones: named shapes, and random graphs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Gt, Le

from rayfed.core.arrays import Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.topology.base import Policy, Series, Topology, refuse_large
from rayfed.topology.graph import EdgeList, Graph


@dataclass(frozen=True, kw_only=True)
class ByRounds(Topology):
    """Base of topologies with rounds as epochs.

    Parameters
    ----------
    every : int, optional
        Rounds between draws of the links and of those that are down; never redrawn if null.
    """

    rotates: ClassVar[bool] = False
    """Whether graphs follow one another in turn."""

    every: Annotated[int, Ge(1)] | None = None

    def series(self, count: int, seed: int) -> Series:
        """Return the graphs of N = count clients."""
        changes = self.drawn or self.rotates or self.loss > 0
        return _Rounds(self.maker(count, seed), self.every if changes else None)

    def maker(self, count: int, seed: int) -> Callable[[int, int], Graph]:
        """Return ``draw(epoch, attempt) -> Graph``.

        Raises
        ------
        ScenarioError
            If the settings do not fit N = count clients.
        """
        raise NotImplementedError


class _Rounds(Series):
    def __init__(self, make: Callable[[int, int], Graph], every: int | None) -> None:
        self._make, self._every = make, every
        self.frames = 1 if every is None else None

    def epoch(self, round: int, time_s: float) -> int:
        return 0 if self._every is None else (round - 1) // self._every

    def draw(self, epoch: int, attempt: int) -> Graph:
        return self._make(epoch, attempt)


@dataclass(frozen=True, kw_only=True)
class Named(ByRounds):
    """Base of graphs that depend only on the number of clients."""

    def maker(self, count: int, seed: int) -> Callable[[int, int], Graph]:
        """Return the same graph for every epoch."""
        graph = EdgeList(count, self.ends(count))
        return lambda epoch, attempt: graph

    def ends(self, count: int) -> Ints:
        """Return the links (E, 2) of N = count clients."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Complete(Named):
    """Every client is linked with every other."""

    name: ClassVar[str] = "complete"

    def ends(self, count: int) -> Ints:
        """Return all pairs."""
        refuse_large(count * (count - 1) / 2)
        return np.stack(np.triu_indices(count, 1), axis=1)


@dataclass(frozen=True, kw_only=True)
class Ring(Named):
    """Each client is linked with the next one, the last with the first."""

    name: ClassVar[str] = "ring"

    def ends(self, count: int) -> Ints:
        """Return i to i + 1 modulo N."""
        ids = np.arange(count)
        return np.stack([ids, (ids + 1) % count], axis=1)


@dataclass(frozen=True, kw_only=True)
class Star(Named):
    """Client 0 is linked with every other."""

    name: ClassVar[str] = "star"

    def ends(self, count: int) -> Ints:
        """Return 0 to i."""
        others = np.arange(1, count)
        return np.stack([np.zeros_like(others), others], axis=1)


@dataclass(frozen=True, kw_only=True)
class Grid(Named):
    """Clients in rows, each linked with those left, right, above and below.

    Parameters
    ----------
    columns : int, optional
        Clients per row; about the square root of N if null. The last row may be shorter.
    """

    name: ClassVar[str] = "grid"

    columns: Annotated[int, Ge(1)] | None = None

    def ends(self, count: int) -> Ints:
        """Return i to i + 1 in its row, and to i + columns below."""
        width, ids = self.columns or math.isqrt(count - 1) + 1, np.arange(count)
        right, above = ids[(ids + 1) % width != 0], ids
        links = np.concatenate(
            [np.stack([right, right + 1], axis=1), np.stack([above, above + width], axis=1)]
        )
        return links[links[:, 1] < count]


@dataclass(frozen=True, kw_only=True)
class Drawn(ByRounds):
    """Base of random graphs that are drawn in one piece."""

    drawn: ClassVar[bool] = True

    disconnected: Policy = "redraw"

    def maker(self, count: int, seed: int) -> Callable[[int, int], Graph]:
        """Return a function that draws the graph of an epoch and attempt."""
        self.check(count)
        key = Key(seed, f"topology/{self.name}")
        return lambda epoch, attempt: EdgeList(
            count, self.ends(count, key.generator(epoch, attempt))
        )

    def check(self, count: int) -> None:
        """Refuse settings that do not fit N = count clients.

        Raises
        ------
        ScenarioError
            If the settings do not fit.
        """
        raise NotImplementedError

    def ends(self, count: int, stream: np.random.Generator) -> Ints:
        """Return the links (E, 2) of one draw."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Random(Drawn):
    """Every pair of clients is linked with the same probability (Erdos and Renyi, Gilbert).

    Such a graph is connected with high probability if ``p > ln(N) / N``.

    Parameters
    ----------
    p : float
        Probability of a link; the expected degree is ``p (N - 1)``.
    """

    name: ClassVar[str] = "random"

    p: Annotated[float, Gt(0), Le(1)]

    def check(self, count: int) -> None:
        """Refuse too many links for memory."""
        refuse_large(self.p * count * (count - 1) / 2)

    def ends(self, count: int, stream: np.random.Generator) -> Ints:
        """Return the links, drawn by geometrically distributed gaps between their indices."""
        pairs = count * (count - 1) // 2
        mean = self.p * pairs
        last, hits = -1, []
        while last < pairs:
            gaps = stream.geometric(self.p, size=int(mean + 4 * mean**0.5) + 8)
            hits.append(
                last + np.cumsum(np.minimum(gaps, pairs + 1))
            )  # clipped, so that the sum cannot overflow
            last = int(hits[-1][-1])
        index = np.concatenate(hits)
        return _pairs(index[index < pairs], count)


@dataclass(frozen=True, kw_only=True)
class Targets(Drawn):
    """Every client picks random clients and is linked with them.

    The graph of the RWSADMM authors' code, https://github.com/zibaparsons/RWSADMM: picks are
    uniform without replacement among all clients, itself included, and links are undirected. A
    client that picks itself gets no link from that pick. The expected degree is
    ``(N - 1) (1 - (1 - number / N)^2)``.

    Parameters
    ----------
    number : int
        Number of clients that each client picks.
    """

    name: ClassVar[str] = "targets"

    number: Annotated[int, Ge(1)] = 5

    def check(self, count: int) -> None:
        """Refuse more picks than there are clients."""
        if self.number > count:
            text = f"found {self.number} picks among {count} clients"
            raise ScenarioError("topology.number", f"{text}; give at most {count}")
        refuse_large(self.number * count)

    def ends(self, count: int, stream: np.random.Generator) -> Ints:
        """Return the picks (N number, 2)."""
        picked = picks(count, self.number, count, stream)
        return np.stack([np.repeat(np.arange(count), self.number), picked.ravel()], axis=1)


@dataclass(frozen=True, kw_only=True)
class Regular(Drawn):
    """A random graph in which every client has the same number of links.

    Drawn by `networkx.random_regular_graph` (A. Steger, N. Wormald, "Generating Random Regular
    Graphs Quickly", 1999); with ``every: 1`` the graphs of EL-Oracle, Epidemic Learning.

    Parameters
    ----------
    degree : int
        Links of each client; N times the degree must be even.
    """

    name: ClassVar[str] = "regular"

    degree: Annotated[int, Ge(1)] = 4

    def check(self, count: int) -> None:
        """Refuse degrees for which no graph exists."""
        if self.degree >= count or self.degree * count % 2:
            text = f"found degree {self.degree} among {count} clients, for which no graph exists"
            remedy = f"give a degree below {count}" + (", an even one" if count % 2 else "")
            remedy = remedy if count > 1 else "use more clients"
            raise ScenarioError("topology.degree", f"{text}; {remedy}")
        refuse_large(self.degree * count / 2)

    def ends(self, count: int, stream: np.random.Generator) -> Ints:
        """Return the links of `networkx.random_regular_graph`."""
        from networkx import random_regular_graph

        graph = random_regular_graph(self.degree, count, seed=stream)
        return np.array(graph.edges, dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class SmallWorld(Drawn):
    """A ring lattice with randomly rewired links (Watts-Strogatz).

    Watts, Strogatz, "Collective dynamics of small-world networks", Nature 393, 1998.

    Parameters
    ----------
    neighbours : int
        Links of each client on the ring, half on each side.
    rewire : float
        Probability that a link is rewired to a random client.
    """

    name: ClassVar[str] = "small-world"

    neighbours: Annotated[int, Ge(2)] = 4
    rewire: Annotated[float, Ge(0), Le(1)] = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.neighbours % 2:
            text = f"found {self.neighbours}, an odd number"
            raise ScenarioError("neighbours", f"{text}; give an even number")

    def check(self, count: int) -> None:
        """Refuse more neighbours than there are other clients."""
        if self.neighbours >= count:
            text = f"found {self.neighbours} neighbours among {count} clients"
            remedy = "give fewer" if count > 2 else "use more clients"
            raise ScenarioError("topology.neighbours", f"{text}; {remedy}")
        refuse_large(self.neighbours * count / 2)

    def ends(self, count: int, stream: np.random.Generator) -> Ints:
        """Return the links of `networkx.watts_strogatz_graph`."""
        from networkx import watts_strogatz_graph

        graph = watts_strogatz_graph(count, self.neighbours, self.rewire, seed=stream)
        return np.array(graph.edges, dtype=np.int64)


def picks(count: int, number: int, among: int, stream: np.random.Generator) -> Ints:
    """Return numbers below `among` for each client, uniform without replacement.

    Floyd's algorithm for all clients at once (J. Bentley, R. Floyd, "A Sample of Brilliance",
    Communications of the ACM, 1987).

    Returns
    -------
    (N, number) array of int
        Of N = count clients.
    """
    drawn = np.full((count, number), -1)
    for column, last in enumerate(range(among - number, among)):
        pick = stream.integers(0, last + 1, size=count)
        seen = (drawn[:, :column] == pick[:, None]).any(axis=1)
        drawn[:, column] = np.where(seen, last, pick)
    return drawn


def _pairs(index: Ints, count: int) -> Ints:
    """Return the pairs i < j (E, 2) with these indices in the order (0, 1), (0, 2), ..."""
    firsts = np.cumsum(np.concatenate([[0], np.arange(count - 1, 0, -1)]))
    low = np.searchsorted(firsts, index, side="right") - 1
    return np.stack([low, low + 1 + index - firsts[low]], axis=1)
