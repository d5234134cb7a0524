"""Cyclic availability: groups of clients take turns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt

from rayfed.core.arrays import Bools, Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.population.availability.base import Availability, Need, PopulationInfo, Times, period


@dataclass(frozen=True, kw_only=True)
class Cyclic(Availability):
    """Groups of clients take turns in a fixed order.

    Cyclic client participation of Cho, Sharma, Joshi, Xu, Kale, Zhang, "On the Convergence of
    Federated Averaging with Cyclic Client Participation", ICML 2023. A group is a run of
    contiguous ids, ``id * groups // count``, or of clients in the order of their labels.

    Parameters
    ----------
    groups : int
        Number of groups.
    rounds : int, optional
        Rounds in a row that a group is available; 1 if neither this nor ``period_s`` is given.
    period_s : float, optional
        Virtual seconds in a row that a group is available: group g is in
        ``[g period_s, (g + 1) period_s)``, modulo ``groups * period_s``.
    by : "id" or "label"
        How clients are ordered before they are divided into groups: by id, or by the label that is
        most frequent among a client's training rows (then by id), which makes groups as
        heterogeneous as possible.

    Raises
    ------
    ScenarioError
        If both ``rounds`` and ``period_s`` are given.

    Examples
    --------
    >>> population = PopulationInfo(count=4, seed=0)
    >>> [Cyclic(groups=2).available(np.arange(4), 0.0, r, population).tolist() for r in (1, 2)]
    [[True, True, False, False], [False, False, True, True]]
    """

    name: ClassVar[str] = "cyclic"

    groups: Annotated[int, Ge(1)] = 2
    rounds: Annotated[int, Ge(1)] | None = None
    period_s: Annotated[float, Gt(0)] | None = None
    by: Literal["id", "label"] = "id"

    def __post_init__(self) -> None:
        if self.rounds is not None and self.period_s is not None:
            raise ScenarioError("", "both rounds and period_s are given; keep one of them")

    @property
    def by_round(self) -> bool:
        """Whether turns are counted in rounds."""
        return self.period_s is None

    def check(self, population: PopulationInfo) -> None:
        """Refuse more groups than clients, since some would be empty."""
        if self.groups > population.count:
            text = f"found {self.groups} cyclic groups of {population.count} clients"
            raise ScenarioError("clients.availability.groups", f"{text}; give fewer groups")

    def available(self, ids: Ints, t: Times, round: int, population: PopulationInfo) -> Bools:
        """Return a mask of the clients in the current group."""
        turn = (round - 1) // (self.rounds or 1)
        if self.period_s is not None:
            turn = period(float(t), self.period_s)
        return np.asarray(self.group(ids, population) == turn % self.groups)

    def next_change(self, ids: Ints, t: Times, population: PopulationInfo) -> Floats:
        """Return the end of the group's turn, or the start of its next one (K,)."""
        if self.period_s is None or self.groups == 1:
            return super().next_change(ids, t, population)
        now = period(float(t), self.period_s)
        wait = (self.group(ids, population) - now) % self.groups
        return np.asarray((now + np.where(wait == 0, 1, wait)) * self.period_s)

    def chance(self, ids: Ints, t: float, round: int, population: PopulationInfo) -> Floats:
        """Return the share (K,) of the turns that a group has."""
        return np.full(len(ids), 1.0 / self.groups)

    def group(self, ids: Ints, population: PopulationInfo) -> Ints:
        """Return the group (K,) of each client."""
        place = np.asarray(ids)
        if self.by == "label":
            if population.ranks is None:
                raise ValueError("groups by label need the clients' rows")
            place = population.ranks[place]
        return np.asarray(place * self.groups // population.count)

    @property
    def needs(self) -> frozenset[Need]:
        """The order of the clients by their labels, if groups are made by it."""
        return frozenset({"ranks"}) if self.by == "label" else frozenset()
