"""Forecasts of runs: their participants, and the duration of rounds.

Who is asked, who answers and when does not depend on a number that clients compute, unless a
selection looks at losses. So rounds can be gone through with clients that return zeros. How long a
round takes is measured in this process, for ``rayfed check`` and for ``executor: auto``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rayfed.channel.uplink import total_name
from rayfed.clients.prints import Captured
from rayfed.clients.request import Request, group_name
from rayfed.clients.setup import Setup
from rayfed.clients.store import StateRows
from rayfed.core.arrays import Array, Ints
from rayfed.core.needs import COHORT
from rayfed.core.threads import one_thread
from rayfed.engine.loop import Loop
from rayfed.engine.run import ENDLESS, Ending, Run
from rayfed.engine.settings import Stop
from rayfed.engine.tasks import columns_of
from rayfed.executors.base import Executor, Gathered
from rayfed.executors.profile import Profile
from rayfed.executors.serial import SerialExecutor
from rayfed.runs.files.run_json import one_line
from rayfed.runs.logger import logger

ROUNDS = 100
"""Rounds that are gone through, at most."""
WHY_EMPTY = (
    "nobody is there or all replies come late; change clients.availability, participation.cohort "
    "or participation.deadline_s"
)
"""Why rounds use no reply, and what to change."""
_FEW_ASKED = 0.5  # of a cohort
_FEW_REACHED = 0.25  # of those that as many draws from all clients would reach
_LONGEST_S = 2.0
_NEVER = 10**9
_WARM_S = 0.2  # of a round: a shorter one is run again, since the first loads what it needs
_UNKNOWN = 1000  # rounds of a run that a rule ends
_ROUNDS, _LONG_S = 3, 1.0  # rounds and seconds of a measurement: the first loads what it needs
_SHORT_ROUNDS, _SHORT_S = 20, 0.1  # and of short rounds, which other programs disturb most


@dataclass(frozen=True)
class Forecast:
    """The first rounds of a run, ahead of time.

    Parameters
    ----------
    rounds : int
        How many were gone through.
    empty : int
        Those of them in which no reply is used.
    participants : float
        Replies that are used in a round, on average.
    time_s : float
        Simulated seconds of a round, on average.
    few_asked : str
        What `few_asked` says of who is asked.
    energy_j : float, optional
        Joules of a round, on average; None if energy is not recorded.
    """

    rounds: int
    empty: int
    participants: float
    time_s: float
    few_asked: str
    energy_j: float | None


def forecast(run: Run, rounds: int = ROUNDS) -> Forecast | None:
    """Return the first rounds of a run ahead of time; None if they depend on computed values.

    Parameters
    ----------
    run : Run
    rounds : int
        At most so many; fewer if the run has fewer, or if they take seconds.
    """
    quiet = replace(run.measuring, every=_NEVER, every_s=None, measures={}, left_out=False)
    endless = Ending(ENDLESS, Stop())  # a last row would be evaluated
    loop = Loop(replace(run, measuring=quiet, ending=endless), _Hollow(run.secure))
    end = time.monotonic() + _LONGEST_S
    counts: list[int] = []
    joules: list[float] = []
    asked: list[Ints] = []
    try:
        with np.errstate(all="ignore"):
            state = loop.first()
            while len(counts) < min(rounds, run.ending.rounds) and not state.exhausted:
                state, row, ended = loop.step(state)
                counts.append(int(row["participants"]))
                joules.append(row.get("energy_j", math.nan))
                asked.append(np.unique(columns_of([each.tasks for each in ended], "client")))
                if time.monotonic() > end:
                    break
    except Exception as error:  # an algorithm may do anything with zeros
        logger.debug("%s: no forecast of its rounds: %s", run.folder, one_line(error))
        return None
    if not counts:
        return None
    used = np.array(counts)
    mean = float(used.mean())
    warning = few_asked(run, len(used), np.concatenate(asked))
    energy_j = float(np.mean(joules)) if run.metered else None
    empty, time_s = int((used == 0).sum()), state.time_s / len(used)
    return Forecast(len(used), empty, mean, time_s, warning, energy_j)


def few_asked(run: Run, rounds: int, asked: Ints) -> str:
    """Return a warning where far fewer clients are asked than the scenario wants, else nothing.

    That is so if a round asks less than half its cohort on average; or if the run asks fewer
    clients than one cohort, or less than a quarter of those that as many cohorts would reach which
    are drawn from all clients. Selections that say themselves who takes part are not looked at.

    Parameters
    ----------
    run : Run
    rounds : int
        How many there were.
    asked : (n,) array of int
        Whom they asked, each client once a round.
    """
    participation, count = run.participation, run.federation.population.count
    if (
        run.training.algorithm.centralised
        or COHORT in participation.select.removes
        or not len(asked)
    ):
        return ""
    cohort, distinct = participation.cohort, len(np.unique(asked))
    mean = len(asked) / rounds
    reached = -count * np.expm1(len(asked) * np.log1p(-min(1 / count, 1 - 1e-12)))
    few = cohort is not None and distinct < min(cohort, count)
    if cohort is None or run.training.algorithm.asynchronous:
        mean_of = ""
    else:
        mean_of = f"{mean:.3g} of the {cohort:,} clients of a cohort on average, and "
        few |= mean < _FEW_ASKED * min(cohort, count)
    if not few and distinct >= _FEW_REACHED * reached:
        return ""
    clients = "" if mean_of else " clients"
    text = f"{rounds:,} rounds asked {mean_of}{distinct:,} of {count:,}{clients} in all"
    return f"{text}: few are there at a time; {_remedy(run)}"


def _remedy(run: Run) -> str:
    """Return the settings to change where few clients are available, if the run may have them."""
    change = "change clients.availability or participation.cohort"
    if run.private is not None or run.training.algorithm.asynchronous:
        return change  # nobody may wait for others, or there are no rounds that wait
    return f"participation.minimum makes rounds wait for more of them, or {change}"


def probe(run: Run, tables: Mapping[str, Any]) -> tuple[float, float]:
    """Return the wall-clock seconds of a run's start and of one of its rounds in this process.

    As in a run, there is one BLAS thread.

    Parameters
    ----------
    run : Run
    tables : mapping of str to Rows
        The tables that its views lack.

    Raises
    ------
    RunFailed
        If a client function raises.
    """
    executor = SerialExecutor(tables)
    executor.open(run.folder, run.setup())
    loop = Loop(run, executor)
    with one_thread():
        begun = time.monotonic()
        state, _ = loop.start()
        started = time.monotonic()
        state, *_ = loop.step(state)
        ended = time.monotonic()
        round_s = ended - started
        if round_s < _WARM_S and run.ending.rounds > 1:
            loop.step(state)
            round_s = time.monotonic() - ended
    if run.measuring.every > 1:  # this round was not evaluated, the first model was
        round_s += (started - begun) / run.measuring.every
    return started - begun, round_s


@dataclass(frozen=True)
class MeasuredRound:
    """Duration of a round of a run in this process.

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
    """Run a round, or several short ones, and return the times of the shortest.

    What client functions print is dropped.

    Raises
    ------
    RunFailed
        If a client function raises.
    """
    executor, profile = SerialExecutor(tables), Profile()
    executor.prints = Captured()
    executor.open(run.folder, run.setup())
    loop = Loop(run, executor)
    profile.watch(loop, "step", "other", opens=True)
    profile.watch(executor.host, "exchange", "computing")
    tasks: list[MeasuredRound] = []
    try:
        state = loop.first()
        while len(tasks) < run.ending.rounds and (
            (len(tasks) < _ROUNDS and profile.total_s < _LONG_S)
            or (len(tasks) < _SHORT_ROUNDS and profile.total_s < _SHORT_S)
        ):
            before, asked = dict(profile.seconds), profile.begun["computing"]
            state, *_ = loop.step(state)
            taken = {step: profile.seconds[step] - before[step] for step in before}
            asked = profile.begun["computing"] - asked
            tasks.append(MeasuredRound(sum(taken.values()), taken["computing"], asked))
    finally:
        executor.close(run.folder)
    return min(tasks, key=lambda task: task.round_s)


def rounds_of(run: Run) -> int:
    """Return the expected number of rounds of a run."""
    return _UNKNOWN if run.ending.rounds >= ENDLESS else run.ending.rounds


def duration(seconds: float) -> str:
    """Return seconds in words.

    Examples
    --------
    >>> duration(0.0123), duration(0.2), duration(75.0), duration(5400.0)
    ('12 ms', '200 ms', '75 s', '1.5 h')
    """
    for worth, unit, most in ((1e-3, "ms", 1.0), (1.0, "s", 120.0), (60.0, "min", 5400.0)):
        if seconds < most:
            number = seconds / worth
            return f"{number:.2g} {unit}" if number < 100 else f"{number:.0f} {unit}"
    return f"{seconds / 3600:.2g} h"


class _Hollow(Executor):
    """An executor with clients that compute nothing and upload zeros.

    Parameters
    ----------
    secure : bool
        Whether what goes through the channel is added up as integers.
    """

    def __init__(self, secure: bool) -> None:
        self.secure = secure

    def open(self, key: str, setup: Setup, pieces: Iterable[StateRows] = ()) -> None:
        """Nothing has to begin."""

    def change(self, key: str, setup: Setup) -> None:
        """Zeros stay zeros."""

    def exchange(self, key: str, request: Request, send: Mapping[str, Array]) -> Gathered:
        """Return zeros of the sizes that the Ask declares."""
        coded = self.secure and request.owner == "algorithm"
        kind = np.int64 if coded else np.float64
        sums: dict[str, Array] = {name: np.zeros(size, kind) for name, size in request.up.items()}
        sums |= {total_name(name): total for name, total in sums.items()}
        scalars = [name for name, size in request.up.items() if size == 1]
        each = {name: np.zeros(len(request.ids)) for name in (*scalars, "loss")}
        if request.vectors:
            each |= {name: np.zeros((len(request.ids), size)) for name, size in request.up.items()}
        for label in () if request.labels is None else np.unique(request.labels).tolist():
            sums |= {group_name(name, label): np.zeros(n, kind) for name, n in request.up.items()}
        return Gathered(sums, each)

    def snapshot(self, key: str) -> Iterator[StateRows]:
        """Nothing has changed."""
        return iter(())

    def close(self, key: str) -> None:
        """Nothing has to end."""

    def profile(self, profile: Profile) -> None:
        """Nothing takes time."""
