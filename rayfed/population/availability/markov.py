"""Markov availability: clients, or all of a region, come and go, and stay for random times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from rayfed.core.arrays import Bools, Floats, Ints
from rayfed.core.errors import ScenarioError
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

    def available(self, ids: Ints, t: Times, round: int, population: PopulationInfo) -> Bools:
        """Return a mask (K,) of clients with chains that are on."""
        return self._chains(population).on(np.asarray(ids), t)

    def next_change(self, ids: Ints, t: Times, population: PopulationInfo) -> Floats:
        """Return when each chain changes next (K,)."""
        return self._chains(population).next_change(np.asarray(ids), t)

    def chance(self, ids: Ints, t: float, round: int, population: PopulationInfo) -> Floats:
        """Return the stationary probability (K,) of being on, which holds at any time."""
        return np.full(len(ids), self.mean_on_s / (self.mean_on_s + self.mean_off_s))

    def _chains(self, population: PopulationInfo) -> OnOff:
        return OnOff(Key(population.seed, "markov"), self.mean_on_s, self.mean_off_s)


@dataclass(frozen=True, kw_only=True)
class Outages(Availability):
    """Regions fail, each on its own, and all clients of a region are away until it is up again.

    The times that a region is up and down are exponential, as those of a client of `markov`. The
    seed assigns clients to regions; regions have equal sizes, to one client.

    Parameters
    ----------
    regions : int
        Number of regions.
    mean_up_s : float
        Mean virtual seconds from the end of an outage to the next, at least a millisecond.
    mean_down_s : float
        Mean virtual seconds of an outage, at least a millisecond.
    """

    name: ClassVar[str] = "outages"
    own_times: ClassVar[bool] = True

    regions: Annotated[int, Ge(1)] = 4
    mean_up_s: StaySeconds = 86_400.0
    mean_down_s: StaySeconds = 3600.0

    def check(self, population: PopulationInfo) -> None:
        """Refuse more regions than clients, since some would be empty."""
        if self.regions > population.count:
            text = f"found {self.regions} regions of {population.count} clients"
            raise ScenarioError("clients.availability.regions", f"{text}; give fewer")

    def available(self, ids: Ints, t: Times, round: int, population: PopulationInfo) -> Bools:
        """Return a mask (K,) of clients in regions that are up."""
        if isinstance(t, np.ndarray):
            return self._chains(population).on(self.region(ids, population), t)
        regions, of = np.unique(self.region(ids, population), return_inverse=True)
        return self._chains(population).on(regions, t)[of]

    def next_change(self, ids: Ints, t: Times, population: PopulationInfo) -> Floats:
        """Return when each client's region fails or is up again (K,)."""
        if isinstance(t, np.ndarray):
            return self._chains(population).next_change(self.region(ids, population), t)
        regions, of = np.unique(self.region(ids, population), return_inverse=True)
        return self._chains(population).next_change(regions, t)[of]

    def chance(self, ids: Ints, t: float, round: int, population: PopulationInfo) -> Floats:
        """Return the stationary probability (K,) that a region is up, which holds at any time."""
        return np.full(len(ids), self.mean_up_s / (self.mean_up_s + self.mean_down_s))

    def region(self, ids: Ints, population: PopulationInfo) -> Ints:
        """Return the region (K,) of each client."""
        place = Key(population.seed, "outages/region").permutation(population.count)(ids)
        return np.asarray(place * self.regions // population.count)

    def _chains(self, population: PopulationInfo) -> OnOff:
        return OnOff(Key(population.seed, "outages"), self.mean_up_s, self.mean_down_s)
