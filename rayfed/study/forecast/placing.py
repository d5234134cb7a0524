"""The choice of ``executor: auto`` from the time of the study in one process.

A placement changes no result, so that a choice that is wrong costs time and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from rayfed.algorithms.asynchronous import Asynchronous
from rayfed.core.errors import ScenarioError
from rayfed.core.threads import one_thread
from rayfed.engine.run import Run
from rayfed.runs.forecast import MeasuredRound, duration, measure, rounds_of
from rayfed.runs.modules import found_by_name
from rayfed.study.forecast.cost import Cost
from rayfed.study.scenario.parts import Executor

Placement: TypeAlias = Literal["serial", "workers", "ray"]

WORKERS_S, RAY_S = 0.6, 4.0
"""Until workers compute, and until a driver and an actor do; measured, as all of these, on two
cores by ``python -m benchmarks.placing``."""
ASK_S, BYTE_S = 0.3e-3, 0.6e-9
"""Of an Ask to an actor and back, and of each byte of the models in it."""
STARTS, MESSAGES = 2.5, 5.0
"""Times its start that a study, and times its message that an Ask must take to be worth it."""
_MEASURED_S = 2.0  # after so long, what is left of the algorithms is taken for like the others


@dataclass(frozen=True)
class Choice:
    """The chosen executor and the reason.

    Parameters
    ----------
    executor : Executor
        Its name is not "auto".
    why : str
        In a part of a sentence.
    """

    executor: Executor
    why: str


def choose(executor: Executor, runs: Sequence[Run], tables: Mapping[str, Any], cpus: int) -> Choice:
    """Return the executor for clients; a round of each algorithm is timed, if it is short.

    Parameters
    ----------
    executor : Executor
        The scenario's executor settings, with name "auto".
    runs : sequence of Run
    tables : mapping of str to Rows
        The tables that their views lack.
    cpus : int
        Of this machine.
    """
    if cpus == 1:
        return _of(executor, "serial", "there is one CPU")
    if executor.device != "cpu":
        return _of(executor, "serial", f"one process has {executor.device} to itself")
    if any(run.wall_scale is not None for run in runs):
        return _of(executor, "ray", "actors sleep under clock: wall")
    try:
        tasks = _measured(runs, tables)
    except Exception:  # a client function may raise anything; its run reports it
        return _of(executor, "serial", "a round ended with an error")
    single = OneProcess.of([(rounds_of(run), tasks[run.folder]) for run in runs], cpus)
    message_s = max(message_seconds(run) for run in runs)
    able = ("workers", "ray") if found_by_name(runs) else ("ray",)  # a class of a notebook is not
    for name in single.order(message_s):
        if name in able and _fits(_of(executor, name, "").executor, runs, tables, cpus):
            return _of(executor, name, single.numbers(message_s))
    return _of(executor, "serial", single.numbers(message_s))


@dataclass(frozen=True)
class OneProcess:
    """Times of a study in one process.

    Parameters
    ----------
    runs, cpus : int
    seconds : float
        Of all rounds of all runs.
    clients_s : float
        Of these, what clients compute.
    asks : int
        Of all rounds.
    """

    runs: int
    cpus: int
    seconds: float
    clients_s: float
    asks: int

    @classmethod
    def of(cls, runs: Sequence[tuple[int, MeasuredRound]], cpus: int) -> OneProcess:
        """Add up the rounds of runs, each of which is like the one that was measured."""
        seconds = sum(rounds * task.round_s for rounds, task in runs)
        clients_s = sum(rounds * task.clients_s for rounds, task in runs)
        return cls(len(runs), cpus, seconds, clients_s, sum(n * task.asks for n, task in runs))

    def order(self, message_s: float) -> list[Placement]:
        """Return the executors that are better than this process, the best first.

        Workers are, if there are several runs and the study takes 2.5 times as long as they take to
        start. Actors are, if it takes 2.5 times as long as Ray takes to start, clients compute at
        least half of the time, and an Ask takes them five times as long as a message. They come
        first where half of the CPUs, or more, would have no run.

        Parameters
        ----------
        message_s : float
            What the messages of an Ask take; see `message_seconds`.
        """
        workers = self.runs > 1 and self.seconds >= STARTS * WORKERS_S
        actors = (
            self.seconds >= STARTS * RAY_S
            and self.clients_s >= self.seconds / 2
            and self.clients_s >= MESSAGES * message_s * self.asks
        )
        better: list[Placement] = []
        if workers:
            better.append("workers")
        if actors:
            better.insert(0 if 2 * self.runs <= self.cpus else len(better), "ray")
        return better

    def numbers(self, message_s: float) -> str:
        """Return the numbers that the order goes by."""
        runs = "1 run takes" if self.runs == 1 else f"{self.runs} runs take"
        return (
            f"{runs} {duration(self.seconds)} in one process, of which clients compute "
            f"{duration(self.clients_s)} in {self.asks} requests, with messages of "
            f"{1e3 * message_s:.2g} ms each; {self.cpus} CPUs"
        )


def message_seconds(run: Run) -> float:
    """Return the seconds of the messages of an Ask of a run, at most.

    The clients of one update of an asynchronous algorithm may each have begun from another version.
    Its message counts twice, since hosts stack clients of different models worse than one process.
    """
    algorithm, times, models = run.training.algorithm, 1, 1
    if isinstance(algorithm, Asynchronous) and algorithm.redispatch == "arrival":
        times, models = 2, algorithm.takes
    return times * (ASK_S + BYTE_S * models * run.training.x0.nbytes)


def _of(executor: Executor, name: Placement, why: str) -> Choice:
    return Choice(executor.model_copy(update={"name": name}), why)


def _measured(runs: Sequence[Run], tables: Mapping[str, Any]) -> dict[str, MeasuredRound]:
    """Return the times of a round of each run, with one BLAS thread as in every placement.

    Runs of a setting of an algorithm take the same; those that were not measured in time take as
    long as the longest.
    """
    begun = time.monotonic()
    tasks: dict[tuple[str, str], MeasuredRound] = {}
    with one_thread():
        for run in runs:
            like = (run.label, run.setting)
            if like not in tasks and (not tasks or time.monotonic() - begun < _MEASURED_S):
                tasks[like] = measure(run, tables)
    longest = max(tasks.values(), key=lambda task: task.round_s)
    return {run.folder: tasks.get((run.label, run.setting), longest) for run in runs}


def _fits(executor: Executor, runs: Sequence[Run], tables: Mapping[str, Any], cpus: int) -> bool:
    """Return whether a placement fits the memory."""
    try:
        Cost.of(executor, runs, tables, cpus).check()
    except ScenarioError:
        return False
    return True
