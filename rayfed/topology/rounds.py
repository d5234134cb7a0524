"""Topologies that change with the rounds, or never."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from rayfed.topology.base import Series, Topology
from rayfed.topology.graph import Graph


@dataclass(frozen=True, kw_only=True)
class ByRounds(Topology):
    """Base of topologies whose epochs are rounds.

    Parameters
    ----------
    every : int, optional
        Rounds between draws of the links and of those that are down; never redrawn if null.
    """

    every: Annotated[int, Ge(1)] | None = None

    def series(self, count: int, seed: int) -> Series:
        """Return the graphs of N = count clients."""
        changes = self.drawn or self.loss > 0
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
