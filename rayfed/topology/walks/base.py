"""What a walk is: the probabilities of the next move, given where the walker is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt, Lt

from rayfed.core.arrays import Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.topology.graph import Graph

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from rayfed.topology.base import Graphs

_ROUNDING = 1e-12
_HALF = 0.5  # how lazy a walk is made that has a period


@dataclass(frozen=True, kw_only=True)
class Walk:
    """Base of all walks.

    Parameters
    ----------
    lazy : float
        Probability of staying that comes before the rule's own.
    periodic : "lazy" or "refuse"
        What is done with a walk that is not lazy and has a period on the first graph (uniform
        moves on a star, a grid, an even ring), so that it never mixes: half of its moves are
        left out, or the scenario ends with one line.
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

    def chances(self, graph: Graph, here: Ints, there: Ints) -> Floats:
        """Return the probabilities (E,) of moves over links, laziness aside.

        Parameters
        ----------
        here, there : (E,) array of int
            Ends of links of the graph.
        """
        raise NotImplementedError

    def check(self, graphs: Graphs) -> None:
        """Refuse graphs that the walk cannot be on.

        Raises
        ------
        ScenarioError
            If it cannot.
        """
        return

    def moves(self, graph: Graph, position: int) -> tuple[Ints, Floats]:
        """Return where the walker may go (n,), ascending, its place included, and how probably.

        Asks for one neighbourhood and the degrees in it.
        """
        around = graph.neighbours(position)
        chances = self._kept(self.chances(graph, np.full(len(around), position), around))
        place = int(np.searchsorted(around, position))
        stay = max(0.0, 1.0 - float(chances.sum()))
        return np.insert(around, place, position), np.insert(chances, place, stay)

    def matrix(self, graph: Graph) -> csr_array[Any]:
        """Return the transition matrix (N, N): row i holds the moves from client i."""
        from scipy.sparse import csr_array, diags_array

        graph = graph.listed()  # whoever must know all links may as well keep them
        links = graph.links
        here, there = np.concatenate([links, links[:, ::-1]]).T
        chances = self._kept(self.chances(graph, here, there))
        size = (graph.count, graph.count)
        moves = csr_array((chances, (here, there)), shape=size)
        stay = 1.0 - moves.sum(axis=1)
        stay[stay < _ROUNDING] = 0.0  # six times 1/6 is less than 1, and would undo a period
        made = csr_array(moves + diags_array(stay))
        made.eliminate_zeros()
        return made

    def resolved(self, graphs: Graphs) -> Walk:
        """Return the walk as it is walked on these graphs: lazy, where it would have a period.

        Raises
        ------
        ScenarioError
            If it has a period and `periodic` says refuse, or does not fit.
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

    def seconds(self, graph: Graph, here: int, there: int) -> float:
        """Return the virtual seconds of a move; staying takes none."""
        if here == there:
            return 0.0
        if self.speed_m_s is None:
            return self.hop_s
        return graph.distance(here, there) / self.speed_m_s

    def _kept(self, chances: Floats) -> Floats:
        return (1.0 - self.lazy) * chances
