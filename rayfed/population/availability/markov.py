"""Markov availability: clients come and go, and stay for random times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from rayfed.core.arrays import Bools, Floats, Ints
from rayfed.core.rng import Key
from rayfed.population.availability.base import Availability, PopulationInfo, Times
from rayfed.population.availability.points import OnOff

StaySeconds = Annotated[float, Ge(1e-3)]


@dataclass(frozen=True, kw_only=True)
class Markov(Availability):
    """Clients come and go on their own, and stay there and away for exponential times.

    A two-state Markov chain in continuous time for each client, in its stationary law from the
    start: a client is available with probability ``mean_on_s / (mean_on_s + mean_off_s)``.

    Parameters
    ----------
    mean_on_s : float
        Mean virtual seconds that a client is available at a stretch, at least a millisecond.
    mean_off_s : float
        Mean virtual seconds that it is away, at least a millisecond.
    """

    name: ClassVar[str] = "markov"
    own_times: ClassVar[bool] = True

    mean_on_s: StaySeconds = 600.0
    mean_off_s: StaySeconds = 600.0

    @property
    def independent(self) -> bool:
        """True: each client has a chain of its own."""
        return True

    def available(self, ids: Ints, t: float, round: int, population: PopulationInfo) -> Bools:
        """Return whose chain is on (K,)."""
        return self._chains(population).on(np.asarray(ids), t)

    def next_change(self, ids: Ints, t: Times, population: PopulationInfo) -> Floats:
        """Return when each chain changes next (K,)."""
        return self._chains(population).next_change(np.asarray(ids), t)

    def chance(self, ids: Ints, t: float, round: int, population: PopulationInfo) -> Floats:
        """Return the stationary probability (K,) of being on, which holds at any time."""
        return np.full(len(ids), self.mean_on_s / (self.mean_on_s + self.mean_off_s))

    def _chains(self, population: PopulationInfo) -> OnOff:
        return OnOff(Key(population.seed, "markov"), self.mean_on_s, self.mean_off_s)
