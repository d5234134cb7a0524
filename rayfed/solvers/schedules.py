"""Schedules: a number that changes from round to round."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt, Len

from rayfed.core.errors import ScenarioError


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Base of all schedules: a positive number for every round."""

    name: ClassVar[str]

    def at(self, round: int) -> float:
        """Return the value in a round, counted from 1."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class ConstantRate(Schedule):
    """The same number in every round; a plain number means the same.

    Parameters
    ----------
    start : float
        The number.

    Examples
    --------
    >>> ConstantRate(start=0.1).at(7)
    0.1
    """

    name: ClassVar[str] = "constant"

    start: Annotated[float, Gt(0)] = 0.1

    def at(self, round: int) -> float:
        """Return ``start``."""
        return self.start


@dataclass(frozen=True, kw_only=True)
class Step(Schedule):
    """A number that is multiplied by a factor at certain rounds.

    Parameters
    ----------
    start : float
        Value in the first round.
    factor : float
        What it is multiplied by at each of the rounds.
    rounds : list of int
        Rounds from which on the factor counts once more, ascending.

    Raises
    ------
    ScenarioError
        If the rounds do not ascend.

    Examples
    --------
    Halved at round 300 and again at round 600:

    >>> step = Step(start=0.05, factor=0.5, rounds=(300, 600))
    >>> [step.at(r) for r in (1, 299, 300, 600)]
    [0.05, 0.05, 0.025, 0.0125]
    """

    name: ClassVar[str] = "step"

    start: Annotated[float, Gt(0)] = 0.1
    factor: Annotated[float, Gt(0)] = 0.5
    rounds: Annotated[tuple[Annotated[int, Ge(2)], ...], Len(1)]

    def __post_init__(self) -> None:
        if list(self.rounds) != sorted(set(self.rounds)):
            found = f"found {list(self.rounds)}; give each round once, in ascending order"
            raise ScenarioError("rounds", found)

    def at(self, round: int) -> float:
        """Return ``start`` times the factor for every round that has come."""
        return self.start * self.factor ** sum(round >= turn for turn in self.rounds)


@dataclass(frozen=True, kw_only=True)
class Exponential(Schedule):
    """A number that decays exponentially: a constant factor from round to round.

    Parameters
    ----------
    start : float
        Value in the first round.
    factor : float
        Ratio of a round's value to that of the round before.

    Examples
    --------
    >>> [Exponential(start=0.5, factor=0.5).at(r) for r in (1, 2, 4)]
    [0.5, 0.25, 0.0625]
    """

    name: ClassVar[str] = "exponential"

    start: Annotated[float, Gt(0)] = 0.1
    factor: Annotated[float, Gt(0)] = 0.99

    def at(self, round: int) -> float:
        """Return ``start factor^(round - 1)``."""
        return float(self.start * self.factor ** (round - 1))


@dataclass(frozen=True, kw_only=True)
class Decay(Schedule):
    """A number that decays polynomially, as theorems on stochastic gradients ask for.

    In round t it is ``start / (1 + rate (t - 1))^power``.

    Parameters
    ----------
    start : float
        Value in the first round.
    rate : float
        How soon the decay begins.
    power : float
        1 or 1/2 in most theorems.

    Examples
    --------
    >>> [Decay(start=0.6, rate=0.5).at(r) for r in (1, 3, 5)]
    [0.6, 0.3, 0.19999999999999998]
    """

    name: ClassVar[str] = "decay"

    start: Annotated[float, Gt(0)] = 0.1
    rate: Annotated[float, Gt(0)] = 1.0
    power: Annotated[float, Gt(0)] = 1.0

    def at(self, round: int) -> float:
        """Return ``start / (1 + rate (t - 1))^power``."""
        return float(self.start / (1 + self.rate * (round - 1)) ** self.power)


@dataclass(frozen=True, kw_only=True)
class Cosine(Schedule):
    """A number that falls along half a cosine, and begins anew after so many rounds.

    In round t of a period of T rounds it is
    ``end + (start - end) (1 + cos(pi (t - 1) / T)) / 2``, never quite ``end`` (Loshchilov, Hutter,
    "SGDR: Stochastic Gradient Descent with Warm Restarts", ICLR 2017,
    https://arxiv.org/abs/1608.03983, equation 5). Give T as the rounds of the run for one fall.

    Parameters
    ----------
    start, end : float
        First value, and the one that a period falls towards.
    rounds : int
        Rounds T of a period.

    Raises
    ------
    ScenarioError
        If `end` is above `start`.

    Examples
    --------
    >>> cosine = Cosine(start=0.4, rounds=4)
    >>> [round(cosine.at(r), 4) for r in (1, 3, 4, 5)]
    [0.4, 0.2, 0.0586, 0.4]
    """

    name: ClassVar[str] = "cosine"

    start: Annotated[float, Gt(0)] = 0.1
    end: Annotated[float, Ge(0)] = 0.0
    rounds: Annotated[int, Ge(1)]

    def __post_init__(self) -> None:
        if self.end > self.start:
            raise ScenarioError("end", f"found {self.end:g}; it should be at most {self.start:g}")

    def at(self, round: int) -> float:
        """Return the value on the half cosine of the round's period."""
        phase = (round - 1) % self.rounds / self.rounds
        return self.end + (self.start - self.end) * (1 + math.cos(math.pi * phase)) / 2


@dataclass(frozen=True)
class ChangedRate(Schedule):
    """A number that a custom loop changes between rounds; scenario files cannot name it.

    Parameters
    ----------
    start : float or Schedule
        The number up to the first change.
    changes : tuple of (int, float)
        Rounds after which it changes, ascending, and the number from then on.

    Examples
    --------
    >>> changed = ChangedRate(start=0.5, changes=((3, 0.1), (7, 0.2)))
    >>> [changed.at(r) for r in (3, 4, 8)]
    [0.5, 0.1, 0.2]
    """

    start: float | Schedule
    changes: tuple[tuple[int, float], ...]

    def at(self, round: int) -> float:
        """Return the number of the last change before a round."""
        for after, number in reversed(self.changes):
            if round > after:
                return number
        return self.start.at(round) if isinstance(self.start, Schedule) else self.start
