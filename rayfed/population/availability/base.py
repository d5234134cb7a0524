"""What an availability is: a pure function of the time or of the round.

Any question may be asked in any order, for any time; the same answer comes back and nothing
changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from rayfed.core.arrays import Bools, Floats, Ints


@dataclass(frozen=True)
class PopulationInfo:
    """What an availability may know of the population.

    Parameters
    ----------
    count : int
        Number N of clients, with ids 0 to N - 1.
    seed : int
        Seed of the run; the same for every algorithm of a study.
    ranks : (N,) array of int, optional
        The place of every client in the order of their labels, where that is known.
    """

    count: int
    seed: int
    ranks: Ints | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class Availability:
    """Base of all availabilities.

    An availability is governed by the virtual time, by the round number, or by neither. One that
    is governed by the round never changes with time: its `next_change` is infinite.
    """

    name: ClassVar[str]

    @property
    def needs_labels(self) -> bool:
        """Whether `PopulationInfo.ranks` must be known."""
        return False

    def check(self, crowd: PopulationInfo) -> None:
        """Raise a `ScenarioError` if the settings do not fit the population."""
        return

    def available(self, ids: Ints, t: float, round: int, crowd: PopulationInfo) -> Bools:
        """Return which clients (K,) can be reached at virtual second t of a round (from 1)."""
        raise NotImplementedError

    def next_change(self, ids: Ints, t: float, crowd: PopulationInfo) -> Floats:
        """Return the first second (K,) after t at which the answer differs; inf if never."""
        return np.full(len(ids), np.inf)


@dataclass(frozen=True, kw_only=True)
class Always(Availability):
    """Every client can always be reached."""

    name: ClassVar[str] = "always"

    def available(self, ids: Ints, t: float, round: int, crowd: PopulationInfo) -> Bools:
        """Return True for every client."""
        return np.ones(len(ids), dtype=np.bool_)


def period(t: float, period_s: float) -> int:
    """Return the k with ``k * period_s <= t < (k + 1) * period_s`` as computed, not as rounded."""
    k = int(t // period_s)
    return k + int((k + 1) * period_s <= t) - int(k * period_s > t)
