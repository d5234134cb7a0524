"""What ``executor: auto`` chooses, and why."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rayfed.core.errors import ScenarioError
from rayfed.core.threads import one_thread
from rayfed.engine.run import Run
from rayfed.runs.forecast import duration
from rayfed.runs.modules import found_by_name
from rayfed.runs.placing import Placement, Work, forecast_s, measure, rounds_of
from rayfed.study.forecast.cost import Cost
from rayfed.study.scenario.parts import Executor

_MEASURED_S = 2.0  # after so long, what is left of the algorithms is taken for like the others
_BETTER = 0.95  # of the time in this process: for less, nothing else is started


@dataclass(frozen=True)
class Choice:
    """What was chosen.

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
    """Return where clients are to live; a round of each algorithm is run, as far as that is short.

    Parameters
    ----------
    executor : Executor
        What the scenario says beside "auto".
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
        works = _measured(runs, tables)
    except Exception:  # a client half may raise anything; its run says what
        return _of(executor, "serial", "a round ended with an error")
    clients = max(run.federation.clients.count for run in runs)
    seconds = forecast_s([(rounds_of(run), works[run.label]) for run in runs], clients, cpus)
    if not found_by_name(runs):
        del seconds["workers"]  # they would not find a class of a notebook
    name = _fastest(executor, runs, tables, cpus, seconds)
    return _of(executor, name, _told(seconds, max(work.round_s for work in works.values())))


def _of(executor: Executor, name: Placement, why: str) -> Choice:
    return Choice(executor.model_copy(update={"name": name}), why)


def _measured(runs: Sequence[Run], tables: Mapping[str, Any]) -> dict[str, Work]:
    """Return what a round of each algorithm takes, with one BLAS thread as in every placement."""
    begun = time.monotonic()
    works: dict[str, Work] = {}
    with one_thread():
        for run in runs:
            if run.label not in works and (not works or time.monotonic() - begun < _MEASURED_S):
                works[run.label] = measure(run, tables)
    longest = max(works.values(), key=lambda work: work.round_s)
    return {run.label: works.get(run.label, longest) for run in runs}


def _fastest(
    executor: Executor,
    runs: Sequence[Run],
    tables: Mapping[str, Any],
    cpus: int,
    seconds: Mapping[Placement, float],
) -> Placement:
    """Return what is fastest and fits the memory; this process if nothing is much faster."""
    for name in sorted(seconds, key=lambda name: seconds[name]):
        if name == "serial" or seconds[name] > _BETTER * seconds["serial"]:
            break
        try:
            Cost.of(_of(executor, name, "").executor, runs, tables, cpus).check()
        except ScenarioError:
            continue
        return name
    return "serial"


def _told(seconds: Mapping[Placement, float], round_s: float) -> str:
    """Return forecasts in words."""
    words = {
        "serial": "in one process", "workers": "as whole runs in workers", "ray": "with actors"
    }  # fmt: skip
    parts = [f"{duration(taken)} {words[name]}" for name, taken in seconds.items()]
    return f"a round takes {duration(round_s)} here; forecast: {', '.join(parts)}"
