"""Checks of numbers of local steps."""

from __future__ import annotations

import numpy as np

from rayfed.solvers.step_counts import StepCount
from rayfed.testing.checks.common import frozen_copies, require, require_equal
from rayfed.testing.examples import COUNT

IDS = np.arange(COUNT)


def check_numbers(length: StepCount) -> None:
    """Check that every client gets a whole number of at least 1."""
    for round in (1, 2, 50):
        drawn = length.draw(IDS, seed=0, draw=round)
        text = f"{length} in round {round}"
        require(drawn.shape == IDS.shape, f"{text}: {drawn.shape} numbers for {IDS.shape}")
        require(drawn.dtype.kind == "i", f"{text}: {drawn.dtype} numbers, not int")
        require(drawn >= 1, f"{text}: a client takes {drawn.min()} steps")


def check_pure(length: StepCount) -> None:
    """Check that a number depends on seed, client, round and state, not on neighbours or order."""
    state = length.init()
    forwards = [length.draw(IDS, seed=3, draw=r, state=state) for r in (1, 2, 9)]
    for round, before in zip((9, 2, 1), reversed(forwards), strict=True):
        again = length.draw(IDS, seed=3, draw=round, state=state)
        require_equal(again, before, f"{length}: another answer to the same question")
        some = length.draw(IDS[[7, 2]], seed=3, draw=round, state=state)
        require_equal(some, before[[7, 2]], f"{length}: neighbours matter")


def check_learning(length: StepCount) -> None:
    """Check that learning returns a new state of the same form and leaves the old one as it was."""
    state = length.init()
    for round, loss in ((1, 4.0), (2, 1.0), (30, 1.0)):
        before = frozen_copies(state)
        after = length.learn(state, loss, round=round, time_s=10.0 * round)
        for name, array in before.items():
            require_equal(state[name], array, f"{length}: learning changed the old '{name}'")
            same = after[name].shape == array.shape and after[name].dtype == array.dtype
            require(same, f"{length}: learning changed the form of '{name}'")
        state = after
