"""A walker: a sample path of a walk on the graphs of a run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rayfed.core.arrays import Ints
from rayfed.core.rng import Key
from rayfed.topology.base import Graphs
from rayfed.topology.walks.base import Walk


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
    >>> from rayfed.topology.named import Ring
    >>> from rayfed.topology.walks import Metropolis
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

    def first(self) -> int:
        """Return the first position, uniform over the clients."""
        return int(self._key.sub("first").integers([0], [self.graphs.count], 1)[0, 0])

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
            Distinguishes several moves in one round.
        """
        ids, chances = self.rule.moves(self.graphs.at(round, time_s), position)
        u = self._key.uniforms([0], round=round, ask=ask)[0]
        reached = np.cumsum(chances)
        return int(ids[np.searchsorted(reached, u * reached[-1], side="right")])

    def seconds(self, here: int, there: int, round: int, time_s: float = 0.0) -> float:
        """Return the virtual seconds of a move; staying takes none."""
        return self.rule.seconds(self.graphs.at(round, time_s), here, there)

    @property
    def _key(self) -> Key:
        return Key(self.graphs.seed, "walk")
