"""Base class of walks: probabilities of the next move, given the position."""

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

    def chances(self, graph: Graph, here: Ints, there: Ints) -> Floats:
        """Return the probabilities (E,) of moves along links, without laziness.

        Parameters
        ----------
        here, there : (E,) array of int
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
        here, there = np.concatenate([links, links[:, ::-1]]).T
        chances = self._lazily(self.chances(graph, here, there))
        size = (graph.count, graph.count)
        moves = csr_array((chances, (here, there)), shape=size)
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

    def seconds(self, graph: Graph, here: int, there: int) -> float:
        """Return the virtual seconds of a move; staying takes none."""
        if here == there:
            return 0.0
        if self.speed_m_s is None:
            return self.hop_s
        return graph.distance(here, there) / self.speed_m_s

    def _lazily(self, chances: Floats) -> Floats:
        return (1.0 - self.lazy) * chances
