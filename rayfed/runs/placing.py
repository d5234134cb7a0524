"""How long runs will take in each placement, by a measured round: what ``executor: auto`` goes by.

A placement changes no result, so that an estimate that is wrong costs time and nothing else.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from rayfed.clients.prints import Kept
from rayfed.engine.loops import loop_of
from rayfed.engine.run import ENDLESS, Run
from rayfed.executors.profile import Profile
from rayfed.executors.serial import SerialExecutor

Placement: TypeAlias = Literal["serial", "workers", "ray"]

EXCHANGE_S = 0.3e-3
"""Of an Ask to an actor and back, with small arrays; measured, as all of these, on two cores by
``python -m benchmarks.placing``."""
BYTE_S = 0.6e-9
"""Of each byte of a model that goes to an actor and comes back."""
WORKER_S, RAY_S, ACTOR_S = 0.6, 1.5, 0.15
"""Until workers compute; until Ray itself does; of each actor and driver."""
_UNKNOWN = 1000  # rounds of a run that a rule ends
_ROUNDS, _WARM_S = 3, 1.0  # rounds and seconds of a measurement: the first loads what it needs


@dataclass(frozen=True)
class Work:
    """What a round of a run takes in this process.

    Parameters
    ----------
    round_s : float
        Wall-clock seconds.
    shared_s : float
        Of these, what clients compute, which actors share.
    exchanges : int
        Asks, evaluations included.
    model_bytes : int
        Of a model.
    """

    round_s: float
    shared_s: float
    exchanges: int
    model_bytes: int


def measure(run: Run, tables: Mapping[str, Any]) -> Work:
    """Run a round, or some if they are short, and return what the shortest of them took.

    What client halves print is dropped.

    Raises
    ------
    RunFailed
        If a client half raises.
    """
    executor, profile = SerialExecutor(tables), Profile()
    executor.prints = Kept()
    executor.open(run.folder, run.setup())
    loop = loop_of(run, executor)
    profile.watch(loop, "step", "other", opens=True)
    profile.watch(executor.host, "exchange", "computing")
    works: list[Work] = []
    try:
        state = loop.first()
        while len(works) < min(_ROUNDS, run.ending.rounds) and profile.total_s < _WARM_S:
            before, asked = dict(profile.seconds), profile.begun["computing"]
            state, *_ = loop.step(state)
            taken = {step: profile.seconds[step] - before[step] for step in before}
            asked = profile.begun["computing"] - asked
            model = run.training.x0.nbytes
            works.append(Work(sum(taken.values()), taken["computing"], asked, model))
    finally:
        executor.close(run.folder)
    return min(works, key=lambda work: work.round_s)


def forecast_s(runs: Sequence[tuple[int, Work]], clients: int, cpus: int) -> dict[Placement, float]:
    """Return how many seconds runs take in each placement.

    Parameters
    ----------
    runs : sequence of (rounds, Work)
        In the order in which they are executed.
    clients : int
        Number N of clients.
    cpus : int
    """
    alone = [rounds * work.round_s for rounds, work in runs]
    return {
        "serial": sum(alone),
        "workers": WORKER_S + _dealt(alone, cpus),
        "ray": _on_ray(runs, min(clients, cpus), cpus),
    }


def _dealt(seconds: Sequence[float], workers: int) -> float:
    """Return when the last of some workers is done, which take one run after the other."""
    free = [0.0] * min(workers, len(seconds))
    for each in seconds:
        heapq.heapreplace(free, free[0] + each)
    return max(free)


def _on_ray(runs: Sequence[tuple[int, Work]], hosts: int, cpus: int) -> float:
    """Return how long runs take whose clients are in actors and their driver, one for each CPU.

    Drivers wait for actors side by side, but all of them share the CPUs.
    """
    busy, waits, actors = 0.0, [], hosts - 1
    for rounds, work in runs:
        sent = work.exchanges * (EXCHANGE_S + BYTE_S * work.model_bytes) * actors
        busy += rounds * (work.round_s + sent)
        waits.append(rounds * (work.round_s - work.shared_s + sent + work.shared_s / hosts))
    started = RAY_S + ACTOR_S * (actors + min(cpus, len(runs)))
    return started + max(busy / cpus, _dealt(waits, cpus))


def rounds_of(run: Run) -> int:
    """Return how many rounds a run is expected to have."""
    return _UNKNOWN if run.ending.rounds >= ENDLESS else run.ending.rounds
