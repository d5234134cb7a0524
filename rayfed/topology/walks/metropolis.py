"""Walks: probabilities of the next move, given the position; and the path of a walker."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt, Lt

from rayfed.core.arrays import Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.topology.base import Graphs
from rayfed.topology.graph import Graph

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_ROUNDING = 1e-12
_HALF = 0.5  # laziness given to periodic walks


@dataclass(frozen=True, kw_only=True)
class Walk:
    """Base of all walks.

    Parameters
    ----------
    lazy : float
        Probability of staying, applied before the rule of the walk.
    periodic : "lazy" or "refuse"
        What to do with a non-lazy walk that is periodic on the first graph (uniform moves on a
        star, a grid, an even ring) and so never mixes: set `lazy` to 1/2, or refuse the scenario.
    hop_s : float
        Virtual seconds of a move to another client.
    speed_m_s : float, optional
        Metres per second of a move, in place of `hop_s`, where clients have positions.
    """

    name: ClassVar[str]

    lazy: Annotated[float, Ge(0), Lt(1)] = 0.0
    periodic: Literal["lazy", "refuse"] = "lazy"
    hop_s: Annotated[float, Ge(0)] = 0.0
    speed_m_s: Annotated[float, Gt(0)] | None = None

    def chances(self, graph: Graph, source: Ints, target: Ints) -> Floats:
        """Return the probabilities (E,) of moves along links, without laziness.

        Parameters
        ----------
        source, target : (E,) array of int
            Ends of links of the graph.
        """
        raise NotImplementedError

    def check(self, graphs: Graphs) -> None:
        """Refuse graphs that do not suit the walk.

        Raises
        ------
        ScenarioError
            If the walk is not possible on the graphs.
        """
        return

    def moves(self, graph: Graph, position: int) -> tuple[Ints, Floats]:
        """Return the possible next positions (n,), ascending, and their probabilities (n,).

        The current position is included. Computes one neighbourhood and the degrees in it.
        """
        around = graph.neighbours(position)
        chances = self._lazily(self.chances(graph, np.full(len(around), position), around))
        place = int(np.searchsorted(around, position))
        stay = max(0.0, 1.0 - float(chances.sum()))
        return np.insert(around, place, position), np.insert(chances, place, stay)

    def matrix(self, graph: Graph) -> csr_array[Any]:
        """Return the transition matrix (N, N): row i holds the moves from client i."""
        from scipy.sparse import csr_array, diags_array

        graph = graph.listed()  # all links are needed, so list them once
        links = graph.links
        source, target = np.concatenate([links, links[:, ::-1]]).T
        chances = self._lazily(self.chances(graph, source, target))
        size = (graph.count, graph.count)
        moves = csr_array((chances, (source, target)), shape=size)
        stay = 1.0 - moves.sum(axis=1)
        stay[stay < _ROUNDING] = 0.0  # 6 * (1/6) < 1 in floating point would hide a period
        made = csr_array(moves + diags_array(stay))
        made.eliminate_zeros()
        return made

    def resolved(self, graphs: Graphs) -> Walk:
        """Return the walk as used on these graphs: made lazy if it would be periodic.

        Raises
        ------
        ScenarioError
            If it is periodic and `periodic` is "refuse", or does not fit the graphs.
        """
        self.check(graphs)
        first = graphs.of(0)
        if self.speed_m_s is not None and first.positions is None:
            text = f"found {self.speed_m_s:g}, but the clients have no positions; give hop_s"
            raise ScenarioError("speed_m_s", text)
        from rayfed.topology.chain import Chain

        period = 1 if self.lazy else Chain(self.matrix(first)).period
        if period == 1:
            return self
        if self.periodic == "refuse":
            text = f"'{self.name}' comes back only every {period} moves and never mixes"
            raise ScenarioError("", f"{text}; set lazy, or periodic to lazy")
        return replace(self, lazy=_HALF)

    def seconds(self, graph: Graph, source: int, target: int) -> float:
        """Return the virtual seconds of a move; staying takes none."""
        if source == target:
            return 0.0
        if self.speed_m_s is None:
            return self.hop_s
        return graph.distance(source, target) / self.speed_m_s

    def _lazily(self, chances: Floats) -> Floats:
        return (1.0 - self.lazy) * chances


@dataclass(frozen=True, kw_only=True)
class UniformWalk(Walk):
    """Simple random walk: all neighbours are equally likely.

    The stationary law is proportional to the degrees.
    """

    name: ClassVar[str] = "uniform"

    def chances(self, graph: Graph, source: Ints, target: Ints) -> Floats:
        """Return one over the degree of the current client."""
        return np.asarray(1.0 / graph.degrees(source))


@dataclass(frozen=True, kw_only=True)
class Metropolis(Walk):
    """Metropolis-Hastings walk with uniform stationary law.

    Metropolis et al., J. Chem. Phys. 21, 1953; Hastings, Biometrika 57, 1970. The matrix is
    symmetric, so the uniform law is stationary on every graph, also if the graph
    changes.
    """

    name: ClassVar[str] = "metropolis"

    def chances(self, graph: Graph, source: Ints, target: Ints) -> Floats:
        """Return one over the larger degree of the two ends."""
        return np.asarray(1.0 / np.maximum(graph.degrees(source), graph.degrees(target)))


@dataclass(frozen=True)
class Walker:
    """A walk on the graphs of a run.

    Its only state is the position, which the caller keeps; the graphs may change over time. Every
    move is keyed by the run's seed and the round, so that all algorithms of a study with the same
    rule follow the same path.

    Parameters
    ----------
    graphs : Graphs
    walk : Walk
        The walk, as in the scenario.

    Examples
    --------
    >>> from rayfed.topology.shapes import Ring
    >>> from rayfed.topology.walks.metropolis import Metropolis
    >>> walker = Walker(Graphs(Ring(), 5, seed=0), Metropolis(lazy=0.2))
    >>> walker.neighbours(0, round=1).tolist()
    [0, 1, 4]
    >>> walker.step(0, round=1) in (0, 1, 4)
    True
    """

    graphs: Graphs
    walk: Walk

    @cached_property
    def rule(self) -> Walk:
        """The walk, resolved on the graphs; raises as `Walk.resolved` does."""
        return self.walk.resolved(self.graphs)

    def first(self, walk: int = 0) -> int:
        """Return the first position of one of several walks, uniform over the clients."""
        return int(self._key.sub("first").integers([walk], [self.graphs.count], 1)[0, 0])

    def neighbours(self, position: int, round: int, time_s: float = 0.0) -> Ints:
        """Return a client and its neighbours (n,), ascending."""
        around = self.graphs.at(round, time_s).neighbours(position)
        return np.insert(around, np.searchsorted(around, position), position)

    def step(self, position: int, round: int, time_s: float = 0.0, ask: int = 0) -> int:
        """Return the next position.

        Parameters
        ----------
        position : int
        round : int
            Round, from 1, which with virtual second `time_s` determines the graph.
        ask : int
            Distinguishes several moves in one round, or several walks.
        """
        ids, chances = self.rule.moves(self.graphs.at(round, time_s), position)
        u = self._key.uniforms([0], round=round, ask=ask)[0]
        reached = np.cumsum(chances)
        return int(ids[np.searchsorted(reached, u * reached[-1], side="right")])

    def seconds(self, source: int, target: int, round: int, time_s: float = 0.0) -> float:
        """Return the virtual seconds of a move; staying takes none."""
        return self.rule.seconds(self.graphs.at(round, time_s), source, target)

    @property
    def _key(self) -> Key:
        return Key(self.graphs.seed, "walk")
