"""Cyclic availability: groups of clients take turns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt

from rayfed.core.arrays import Bools, Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.population.availability.base import Availability, PopulationInfo, period


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
        The order that is cut into groups: of ids, or of the label that is most frequent among a
        client's training rows (then of ids), so that groups differ as much as can be.

    Raises
    ------
    ScenarioError
        If both ``rounds`` and ``period_s`` are given.

    Examples
    --------
    >>> crowd = PopulationInfo(count=4, seed=0)
    >>> [Cyclic(groups=2).available(np.arange(4), 0.0, r, crowd).tolist() for r in (1, 2)]
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

    def check(self, crowd: PopulationInfo) -> None:
        """Refuse more groups than clients: some turns would be nobody's."""
        if self.groups > crowd.count:
            found = f"found {self.groups} cyclic groups of {crowd.count} clients"
            raise ScenarioError("clients.availability.groups", f"{found}; give fewer groups")

    def available(self, ids: Ints, t: float, round: int, crowd: PopulationInfo) -> Bools:
        """Return which clients belong to the group whose turn it is."""
        turn = (round - 1) // (self.rounds or 1)
        if self.period_s is not None:
            turn = period(t, self.period_s)
        return np.asarray(self.group(ids, crowd) == turn % self.groups)

    def next_change(self, ids: Ints, t: float, crowd: PopulationInfo) -> Floats:
        """Return the end of the group's turn, or the start of its next one (K,)."""
        if self.period_s is None or self.groups == 1:
            return super().next_change(ids, t, crowd)
        now = period(t, self.period_s)
        wait = (self.group(ids, crowd) - now) % self.groups
        return np.asarray((now + np.where(wait == 0, 1, wait)) * self.period_s)

    def group(self, ids: Ints, crowd: PopulationInfo) -> Ints:
        """Return the group (K,) of each client."""
        place = np.asarray(ids)
        if self.by == "label":
            if crowd.ranks is None:
                raise ValueError("groups by label need the clients' rows")
            place = crowd.ranks[place]
        return np.asarray(place * self.groups // crowd.count)

    @property
    def needs_labels(self) -> bool:
        """Whether the clients must be ordered by their labels."""
        return self.by == "label"
