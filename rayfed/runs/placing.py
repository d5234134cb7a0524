"""Seconds of a round in this process, by which ``executor: auto`` chooses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rayfed.clients.prints import Kept
from rayfed.engine.loop import Loop
from rayfed.engine.run import ENDLESS, Run
from rayfed.executors.profile import Profile
from rayfed.executors.serial import SerialExecutor

_UNKNOWN = 1000  # rounds of a run that a rule ends
_ROUNDS, _WARM_S = 3, 1.0  # rounds and seconds of a measurement: the first loads what it needs
_SHORT_ROUNDS, _SHORT_S = 20, 0.1  # and of short rounds, which other programs disturb most


@dataclass(frozen=True)
class MeasuredRound:
    """What a round of a run takes in this process.

    Parameters
    ----------
    round_s : float
        Wall-clock seconds.
    clients_s : float
        Of these, what clients compute, which actors share.
    asks : int
        Evaluations included.
    """

    round_s: float
    clients_s: float
    asks: int


def measure(run: Run, tables: Mapping[str, Any]) -> MeasuredRound:
    """Run a round, or some if they are short, and return what the shortest of them took.

    What client functions print is dropped.

    Raises
    ------
    RunFailed
        If a client function raises.
    """
    executor, profile = SerialExecutor(tables), Profile()
    executor.prints = Kept()
    executor.open(run.folder, run.setup())
    loop = Loop(run, executor)
    profile.watch(loop, "step", "other", opens=True)
    profile.watch(executor.host, "exchange", "computing")
    works: list[MeasuredRound] = []
    try:
        state = loop.first()
        while len(works) < run.ending.rounds and (
            (len(works) < _ROUNDS and profile.total_s < _WARM_S)
            or (len(works) < _SHORT_ROUNDS and profile.total_s < _SHORT_S)
        ):
            before, asked = dict(profile.seconds), profile.begun["computing"]
            state, *_ = loop.step(state)
            taken = {step: profile.seconds[step] - before[step] for step in before}
            asked = profile.begun["computing"] - asked
            works.append(MeasuredRound(sum(taken.values()), taken["computing"], asked))
    finally:
        executor.close(run.folder)
    return min(works, key=lambda work: work.round_s)


def rounds_of(run: Run) -> int:
    """Return how many rounds a run is expected to have."""
    return _UNKNOWN if run.ending.rounds >= ENDLESS else run.ending.rounds
