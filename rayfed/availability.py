"""Availability: which clients can be reached, as a pure function of the time or of the round.

Any question may be asked in any order, for any time; the same answer comes back and nothing
changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt, Le

from rayfed.errors import ScenarioError
from rayfed.rng import Key

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_BLOCK = 16  # periods of a Bernoulli availability drawn together
_HORIZON = 4096  # blocks that a search for the next change looks ahead


@dataclass(frozen=True)
class Crowd:
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
        """Whether `Crowd.ranks` must be known."""
        return False

    def check(self, crowd: Crowd) -> None:
        """Raise a `ScenarioError` if the settings do not fit the population."""
        return

    def available(self, ids: Ints, t: float, round: int, crowd: Crowd) -> Bools:
        """Return which clients (K,) can be reached at virtual second t of a round (from 1)."""
        raise NotImplementedError

    def next_change(self, ids: Ints, t: float, crowd: Crowd) -> Floats:
        """Return the first second (K,) after t at which the answer differs; inf if never."""
        return np.full(len(ids), np.inf)


@dataclass(frozen=True, kw_only=True)
class Always(Availability):
    """Every client can always be reached."""

    name: ClassVar[str] = "always"

    def available(self, ids: Ints, t: float, round: int, crowd: Crowd) -> Bools:
        """Return True for every client."""
        return np.ones(len(ids), dtype=np.bool_)


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
    >>> crowd = Crowd(count=4, seed=0)
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

    def check(self, crowd: Crowd) -> None:
        """Refuse more groups than clients: some turns would be nobody's."""
        if self.groups > crowd.count:
            found = f"found {self.groups} cyclic groups of {crowd.count} clients"
            raise ScenarioError("clients.availability.groups", f"{found}; give fewer groups")

    def available(self, ids: Ints, t: float, round: int, crowd: Crowd) -> Bools:
        """Return which clients belong to the group whose turn it is."""
        turn = (round - 1) // (self.rounds or 1)
        if self.period_s is not None:
            turn = _period(t, self.period_s)
        return np.asarray(self.group(ids, crowd) == turn % self.groups)

    def next_change(self, ids: Ints, t: float, crowd: Crowd) -> Floats:
        """Return the end of the group's turn, or the start of its next one (K,)."""
        if self.period_s is None or self.groups == 1:
            return super().next_change(ids, t, crowd)
        now = _period(t, self.period_s)
        wait = (self.group(ids, crowd) - now) % self.groups
        return np.asarray((now + np.where(wait == 0, 1, wait)) * self.period_s)

    def group(self, ids: Ints, crowd: Crowd) -> Ints:
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


@dataclass(frozen=True, kw_only=True)
class Bernoulli(Availability):
    """Each client is available with probability p, independently of the others.

    Parameters
    ----------
    p : float
        Probability of being available.
    period_s : float, optional
        Virtual seconds after which each client is drawn anew; every round if None.
    """

    name: ClassVar[str] = "bernoulli"

    p: Annotated[float, Ge(0), Le(1)] = 0.5
    period_s: Annotated[float, Gt(0)] | None = None

    def available(self, ids: Ints, t: float, round: int, crowd: Crowd) -> Bools:
        """Return the draw (K,) of this round, or of this period."""
        if self.period_s is None:
            return Key(crowd.seed, "availability").uniforms(ids, round=round) < self.p
        block, index = divmod(_period(t, self.period_s), _BLOCK)
        return self._block(ids, block, crowd)[:, index]

    def next_change(self, ids: Ints, t: float, crowd: Crowd) -> Floats:
        """Return the start (K,) of the first period whose draw differs from that at t.

        The search looks 65,536 periods ahead; where it finds no change, the end of what it saw is
        returned.
        """
        if self.period_s is None or self.p in (0.0, 1.0):
            return super().next_change(ids, t, crowd)
        ids, now = np.asarray(ids), _period(t, self.period_s)
        first = now // _BLOCK
        changed = np.full(len(ids), (first + _HORIZON) * _BLOCK)
        status, pending = self.available(ids, t, 0, crowd), np.arange(len(ids))
        for block in range(first, first + _HORIZON):
            differs = self._block(ids[pending], block, crowd) != status[pending, None]
            differs[:, : max(0, now - block * _BLOCK)] = False
            found = differs.any(axis=1)
            changed[pending[found]] = block * _BLOCK + differs[found].argmax(axis=1)
            pending = pending[~found]
            if not len(pending):
                break
        return np.asarray(changed * self.period_s)

    def _block(self, ids: Ints, block: int, crowd: Crowd) -> Bools:
        """Return the draws (K, _BLOCK) of one block of periods."""
        key = Key(crowd.seed, "availability/period")
        return key.uniforms(ids, _BLOCK, round=block) < self.p


def _period(t: float, period_s: float) -> int:
    """Return the k with ``k * period_s <= t < (k + 1) * period_s`` as computed, not as rounded."""
    k = int(t // period_s)
    return k + int((k + 1) * period_s <= t) - int(k * period_s > t)
