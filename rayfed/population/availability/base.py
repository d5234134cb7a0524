"""Base class of availability models: pure functions of the virtual time or of the round.

They have no state: queries may come in any order and for any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal, Self, TypeAlias

import numpy as np

from rayfed.core.arrays import Bools, Floats, Ints

Times: TypeAlias = float | Floats
"""A virtual second, or with `Availability.own_times` one for each client (K,)."""
Need: TypeAlias = Literal["ranks", "sizes", "holds"]
"""A field of `PopulationInfo` that is made of the clients' rows."""


@dataclass(frozen=True)
class PopulationInfo:
    """Properties of the population that an availability may use.

    Parameters
    ----------
    count : int
        Number N of clients, with ids 0 to N - 1.
    seed : int
        Seed of the run; the same for every algorithm of a study.
    ranks : (N,) array of int, optional
        Rank of every client in the order of labels, if known.
    sizes : (N,) array of int, optional
        Training rows n_i of every client, if known.
    holds : (N, C) array of bool, optional
        Which of the C labels every client holds, if known.
    """

    count: int
    seed: int
    ranks: Ints | None = field(default=None, compare=False, repr=False)
    sizes: Ints | None = field(default=None, compare=False, repr=False)
    holds: Bools | None = field(default=None, compare=False, repr=False)

    @property
    def known_sizes(self) -> Ints:
        """The sizes; availabilities that use them declare the need."""
        if self.sizes is None:
            raise ValueError("probabilities by rows need the clients' rows")
        return self.sizes

    @property
    def known_holds(self) -> Bools:
        """The labels; availabilities that use them declare the need."""
        if self.holds is None:
            raise ValueError("probabilities by labels need the clients' rows")
        return self.holds

    @cached_property
    def size_range(self) -> tuple[int, int]:
        """The smallest size but 0, and the largest, at least 1."""
        sizes = np.maximum(self.known_sizes, 1)
        return int(sizes.min()), int(sizes.max())


@dataclass(frozen=True, kw_only=True)
class Availability:
    """Base of all availabilities.

    An availability depends on the virtual time, on the round number, or on neither. One that
    depends on the round never changes with time: its `next_change` is infinite.
    """

    name: ClassVar[str]
    own_times: ClassVar[bool] = False
    """Whether `available` and `next_change` also take a time for each client (K,), and each time
    that the latter returns is a change."""

    @property
    def needs(self) -> frozenset[Need]:
        """Needed properties of the clients' data in `PopulationInfo`."""
        return frozenset()

    @property
    def by_round(self) -> bool:
        """Whether it depends on the number of the round."""
        return False

    @property
    def independent(self) -> bool:
        """Whether each client comes and goes by draws of its own, on the clock."""
        return False

    def named(self, names: Sequence[str]) -> Self:
        """Return the availability of clients that the data name, empty if they do not.

        Raises
        ------
        ScenarioError
            If it is about clients of other names.
        """
        return self

    def check(self, population: PopulationInfo) -> None:
        """Raise a `ScenarioError` if the settings do not fit the population."""
        return

    def available(self, ids: Ints, t: Times, round: int, population: PopulationInfo) -> Bools:
        """Return which clients (K,) can be reached at virtual second t of a round (from 1)."""
        raise NotImplementedError

    def next_change(self, ids: Ints, t: Times, population: PopulationInfo) -> Floats:
        """Return the first second (K,) after t at which `available` changes; inf if never."""
        return np.full(len(ids), np.inf)

    def chance(self, ids: Ints, t: float, round: int, population: PopulationInfo) -> Floats | None:
        """Return the probability (K,) of being available at virtual second t of a round.

        Where nothing is random it is the share of the time, or of the rounds, in the long run.
        None if it is not known.
        """
        return None


@dataclass(frozen=True, kw_only=True)
class Always(Availability):
    """Every client can always be reached."""

    name: ClassVar[str] = "always"
    own_times: ClassVar[bool] = True

    def available(self, ids: Ints, t: Times, round: int, population: PopulationInfo) -> Bools:
        """Return True for every client."""
        return np.ones(len(ids), dtype=np.bool_)

    def chance(self, ids: Ints, t: float, round: int, population: PopulationInfo) -> Floats:
        """Return 1 for every client."""
        return np.ones(len(ids))


def period(t: float, period_s: float) -> int:
    """Return k with ``k * period_s <= t < (k + 1) * period_s``, exactly in floating point."""
    k = int(t // period_s)
    return k + int((k + 1) * period_s <= t) - int(k * period_s > t)
