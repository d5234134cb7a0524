"""Settings that asynchronous algorithms refuse before a run starts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rayfed.algorithms.asynchronous import Asynchronous
from rayfed.core.errors import ScenarioError
from rayfed.engine.run import Participation, Run
from rayfed.messages import Ask
from rayfed.selection import All


def with_concurrency(run: Run) -> Run:
    """Return a run whose algorithm, if it is asynchronous, knows how many clients are at work.

    All clients under ``select: all``; else its own setting, or the cohort, or all.
    """
    algorithm, count = run.training.algorithm, run.federation.population.count
    if not isinstance(algorithm, Asynchronous):
        return run
    at_work = min(algorithm.concurrency or run.participation.cohort or count, count)
    if isinstance(run.participation.select, All):
        at_work = count
    training = replace(run.training, algorithm=replace(algorithm, concurrency=at_work))
    return replace(run, training=training)


def check_asynchronous(index: int, run: Run, ask: Ask | None) -> None:
    """Refuse settings that have no meaning where there are no rounds.

    Parameters
    ----------
    index : int
        Number of the algorithm in the scenario file.
    ask : Ask, optional
        What it asks the clients.

    Raises
    ------
    ScenarioError
        With the place of the setting.
    """
    label = run.label
    for place, found in _misfits(index, run):
        text = f"{found}, but '{label}' is asynchronous and has no rounds"
        raise ScenarioError(place, text)
    algorithm, place = run.training.algorithm, f"algorithms.{index}"
    assert isinstance(algorithm, Asynchronous)
    if algorithm.overlap:
        _check_overlap(f"{place}.overlap", run, algorithm)
    if ask is None:
        return
    if ask.clients is not None or ask.plain:
        text = f"the Ask of '{label}' names clients or plain sums; asynchronous methods cannot"
        raise ScenarioError(place, text)
    if ask.vectors and not algorithm.sees_vectors:
        raise ScenarioError(place, f"'{ask.work}' asks for vectors; declare `sees_vectors`")


def _check_overlap(place: str, run: Run, algorithm: Asynchronous) -> None:
    """Refuse uploads behind the next work where there is no next work, or where they would stop."""
    text = ""
    if algorithm.redispatch == "update":
        text = f"the clients of '{run.label}' start together, when all have sent"
    elif run.participation.interrupted == "resume":
        text = "participation.interrupted is resume, and uploads would stand still"
    elif run.federation.server.limited:
        text = "transfers that share the server's bandwidth follow one another"
    if text:
        raise ScenarioError(place, f"found true, but {text}; leave it out")


def _of_rounds(participation: Participation) -> Iterator[tuple[str, str]]:
    """Yield the settings that say when a round begins and ends."""
    if participation.over_select != 1.0:
        yield "participation.over_select", f"found {participation.over_select:g}; use 1"
    plain = {"late": "drop", "minimum": 1, "patience_s": None, "correct": None}
    for key, meaningless in plain.items():
        if (found := getattr(participation, key)) != meaningless:
            yield f"participation.{key}", f"found {found}; leave it out"
    if participation.deadline_s is not None:
        found = f"found {participation.deadline_s:g}; give timeout_s, which limits a piece of work"
        yield "participation.deadline_s", found
    if participation.retries and participation.retry == "other":
        yield "participation.retry", "found other, which the selection does; leave retries out"


def _misfits(index: int, run: Run) -> Iterator[tuple[str, str]]:
    """Yield the settings that do not fit: their place, what was found and what to do."""
    participation, selection = run.participation, run.participation.select
    if selection.asks or selection.listens or selection.needs_graphs:
        yield "participation.select", f"found '{selection.name}'; use uniform, weighted or all"
    yield from _of_rounds(participation)
    if run.federation.population.by_round:
        text = "goes by rounds; give it a period_s"
        yield "clients.availability", f"'{run.federation.population.availability.name}' {text}"
    if any(
        solver.varying is not None and solver.varying.listens for solver in run.training.solvers
    ):
        yield f"algorithms.{index}.local", "the number of local steps follows the losses"
