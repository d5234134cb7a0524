"""Graphs that are drawn: each link by chance, targets that every client picks, small worlds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Gt, Le

from rayfed.core.arrays import Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.topology.base import Policy, refuse_large
from rayfed.topology.graph import Graph, Listed
from rayfed.topology.rounds import ByRounds


@dataclass(frozen=True, kw_only=True)
class Drawn(ByRounds):
    """Base of graphs that are drawn as a whole."""

    drawn: ClassVar[bool] = True

    disconnected: Policy = "redraw"

    def maker(self, count: int, seed: int) -> Callable[[int, int], Graph]:
        """Return a draw of its own for every epoch and attempt."""
        self.check(count)
        key = Key(seed, f"topology/{self.name}")
        return lambda epoch, attempt: Listed(count, self.ends(count, key.generator(epoch, attempt)))

    def check(self, count: int) -> None:
        """Refuse settings that do not fit N = count clients.

        Raises
        ------
        ScenarioError
            If they do not.
        """
        raise NotImplementedError

    def ends(self, count: int, stream: np.random.Generator) -> Ints:
        """Return the links (E, 2) of one draw."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Random(Drawn):
    """Every pair of clients is linked with the same probability (Erdos and Renyi, Gilbert).

    Such a graph is whole with high probability from ``p = ln(N) / N`` on.

    Parameters
    ----------
    p : float
        Probability of a link; the expected degree is ``p (N - 1)``.
    """

    name: ClassVar[str] = "random"

    p: Annotated[float, Gt(0), Le(1)]

    def check(self, count: int) -> None:
        """Refuse more links than memory should hold."""
        refuse_large(self.p * count * (count - 1) / 2)

    def ends(self, count: int, stream: np.random.Generator) -> Ints:
        """Return the pairs that are hit: the gaps between them are geometric."""
        pairs = count * (count - 1) // 2
        mean = self.p * pairs
        last, hits = -1, []
        while last < pairs:
            gaps = stream.geometric(self.p, size=int(mean + 4 * mean**0.5) + 8)
            hits.append(last + np.cumsum(np.minimum(gaps, pairs + 1)))  # a sum without overflow
            last = int(hits[-1][-1])
        index = np.concatenate(hits)
        return _pairs(index[index < pairs], count)


@dataclass(frozen=True, kw_only=True)
class Targets(Drawn):
    """Every client picks some clients at random, and is linked with whom it picks.

    The graph of the RWSADMM authors' code, https://github.com/zibaparsons/RWSADMM: picks are
    uniform without replacement among all clients, itself included, and links have no direction.
    Who picks itself gets no link from that pick. The expected degree is
    ``(N - 1) (1 - (1 - number / N)^2)``.

    Parameters
    ----------
    number : int
        Clients that each one picks.
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
        """Return the picks (N number, 2), by Floyd's algorithm for all clients at once."""
        picks = np.full((count, self.number), -1)
        for column, last in enumerate(range(count - self.number, count)):
            pick = stream.integers(0, last + 1, size=count)
            seen = (picks[:, :column] == pick[:, None]).any(axis=1)
            picks[:, column] = np.where(seen, last, pick)
        return np.stack([np.repeat(np.arange(count), self.number), picks.ravel()], axis=1)


@dataclass(frozen=True, kw_only=True)
class SmallWorld(Drawn):
    """A ring of near neighbours, some of whose links lead anywhere instead.

    Watts, Strogatz, "Collective dynamics of small-world networks", Nature 393, 1998.

    Parameters
    ----------
    neighbours : int
        Links of each client on the ring, half of them on either side.
    rewire : float
        Probability that a link leads to a client drawn at random.
    """

    name: ClassVar[str] = "small-world"

    neighbours: Annotated[int, Ge(2)] = 4
    rewire: Annotated[float, Ge(0), Le(1)] = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.neighbours % 2:
            text = f"found {self.neighbours}, of which no half is on either side"
            raise ScenarioError("neighbours", f"{text}; give an even number")

    def check(self, count: int) -> None:
        """Refuse more neighbours than there are other clients."""
        if self.neighbours >= count:
            text = f"found {self.neighbours} neighbours among {count} clients"
            raise ScenarioError("topology.neighbours", f"{text}; give fewer")
        refuse_large(self.neighbours * count / 2)

    def ends(self, count: int, stream: np.random.Generator) -> Ints:
        """Return the links of networkx's graph."""
        from networkx import watts_strogatz_graph

        graph = watts_strogatz_graph(count, self.neighbours, self.rewire, seed=stream)
        return np.array(graph.edges, dtype=np.int64)


def _pairs(index: Ints, count: int) -> Ints:
    """Return the pairs i < j (E, 2) with these numbers in the order (0, 1), (0, 2), ..."""
    firsts = np.cumsum(np.concatenate([[0], np.arange(count - 1, 0, -1)]))
    low = np.searchsorted(firsts, index, side="right") - 1
    return np.stack([low, low + 1 + index - firsts[low]], axis=1)
