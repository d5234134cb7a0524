"""The loop of a run: rounds or arrivals."""

from __future__ import annotations

from rayfed.engine.arrivals import ArrivalLoop
from rayfed.engine.loop import Loop
from rayfed.engine.rounds import RoundLoop
from rayfed.engine.run import Run
from rayfed.executors.base import Executor


def loop_of(run: Run, executor: Executor) -> Loop:
    """Return the loop of rounds, or that of arrivals for an asynchronous algorithm."""
    asynchronous = run.training.algorithm.asynchronous
    return ArrivalLoop(run, executor) if asynchronous else RoundLoop(run, executor)
