"""Checks of schedules."""

from __future__ import annotations

import math

from rayfed.solvers.schedules import Schedule
from rayfed.testing.checks.common import require

ROUNDS = (1, 2, 3, 10, 99, 1000)


def check_values(schedule: Schedule) -> None:
    """Check that the number is positive and finite in every round."""
    for round in ROUNDS:
        value = schedule.at(round)
        require(isinstance(value, float), f"{schedule}.at({round}) is {value!r}, no float")
        require(math.isfinite(value) and value > 0, f"{schedule}.at({round}) is {value!r}")


def check_pure(schedule: Schedule) -> None:
    """Check that rounds may be asked for in any order."""
    forwards = [schedule.at(round) for round in ROUNDS]
    backwards = [schedule.at(round) for round in reversed(ROUNDS)]
    require(backwards[::-1] == forwards, f"{schedule}: the order of the rounds matters")
