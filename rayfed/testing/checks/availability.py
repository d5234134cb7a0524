"""Checks of availability."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from rayfed.population.availability.base import Availability, PopulationInfo
from rayfed.testing.checks.common import require, require_equal
from rayfed.testing.examples import COUNT

Question: TypeAlias = tuple[float, int]
"""A virtual second and a round, from 1."""

POPULATION = PopulationInfo(
    COUNT,
    seed=5,
    ranks=np.arange(COUNT)[::-1].copy(),
    sizes=np.arange(1, COUNT + 1),
    holds=np.arange(4) == np.arange(COUNT)[:, None] % 4,
)
IDS = np.arange(COUNT)
_GOLDEN = 0.6180339887498949
QUESTIONS: tuple[Question, ...] = (
    (0.0, 1), (0.5, 1), (1e-9, 2), (3600.0, 2), (5.0, 7), (43_200.0, 3), (1e6, 40), (1e9, 1),
)  # fmt: skip


def check_pure(availability: Availability, questions: Sequence[Question] = QUESTIONS) -> None:
    """Check that any question, in any order, gets the same answer and changes nothing."""
    availability.check(POPULATION)
    forwards = [availability.available(IDS, t, r, POPULATION) for t, r in questions]
    changes = [availability.next_change(IDS, t, POPULATION) for t, _ in questions]
    some = IDS[[7, 2, 11]]
    for k in reversed(range(len(questions))):
        time_s, round = questions[k]
        text = f"{availability} at {time_s:g} s in round {round}"
        again = availability.available(IDS, time_s, round, POPULATION)
        require(again.dtype == np.bool_, f"{text}: answers {again.dtype}, not bool")
        require_equal(again, forwards[k], f"{text}: another answer to the same question")
        few = availability.available(some, time_s, round, POPULATION)
        require_equal(few, again[some], f"{text}: the other clients that were asked matter")
        later = availability.next_change(IDS, time_s, POPULATION)
        require_equal(later, changes[k], f"{text}: another next change")
        require(later > time_s, f"{text}: the next change is not later")


def check_next_change(availability: Availability) -> None:
    """Check that nothing changes before `next_change`, and that something does then."""
    for time_s, round in QUESTIONS[:-1]:
        require_announced_changes(availability, time_s, round)


def check_own_times(availability: Availability) -> None:
    """Check that clients can be asked about at times of their own, where that is declared."""
    if not availability.own_times:
        return
    times = np.array([time_s for time_s, _ in QUESTIONS[:-1]])
    ids = IDS[: len(times)]
    changes = partial(availability.next_change, population=POPULATION)
    there = partial(availability.available, round=1, population=POPULATION)
    for asked in (changes, there):
        alone = [asked(ids[k : k + 1], time_s)[0] for k, time_s in enumerate(times.tolist())]
        require_equal(
            asked(ids, times), np.array(alone), f"{availability}: the others' times matter"
        )


def check_chance(availability: Availability) -> None:
    """Check that probabilities, where they are known, are some, and are no others' concern."""
    for time_s, round in QUESTIONS:
        chance = availability.chance(IDS, time_s, round, POPULATION)
        if chance is None:
            continue
        require((chance >= 0) & (chance <= 1), f"{availability}: the chances are {chance}")
        few = availability.chance(IDS[:3], time_s, round, POPULATION)
        require_equal(few, chance[:3], f"{availability}: the other clients matter")
        there = availability.available(IDS, time_s, round, POPULATION)
        require(chance[there] > 0, f"{availability}: a client is available with chance 0")


def check_reachable(availability: Availability) -> None:
    """Check that everybody is available at some time: rounds and a week of hours are tried."""
    seen = np.zeros(COUNT, dtype=bool)
    for k in range(1, 200):
        time_s = 3600.0 * k * _GOLDEN  # in step with no period
        seen |= availability.available(IDS, time_s, k, POPULATION)
    require(seen, f"{availability}: clients {IDS[~seen].tolist()} are never available")


def require_announced_changes(availability: Availability, time_s: float, round: int) -> None:
    """Refuse a `next_change` before which an answer changes, or at which none does."""
    now = availability.available(IDS, time_s, round, POPULATION)
    changes = availability.next_change(IDS, time_s, POPULATION)
    for client, change in enumerate(changes.tolist()):
        until = change if np.isfinite(change) else time_s + 1e6
        one = IDS[client : client + 1]
        text = f"{availability}: client {client}, asked at {time_s:g} s"
        for share in (0.01, 0.3, 0.7, 0.99):
            between = time_s + share * (until - time_s)
            if between < until:  # rounding may reach the end of a short wait
                answer = availability.available(one, between, round, POPULATION)
                require_equal(answer, now[one], f"{text}, changes before {change:g} s")
        if np.isfinite(change):
            then = availability.available(one, change, round, POPULATION)
            require(then != now[one], f"{text}, does not change at {change:g} s")
