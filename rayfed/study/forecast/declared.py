"""Refusals by declarations alone: combinations of parts that are refused for all numbers.

They come before data are read, and once more when the problem has met its rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from rayfed.algorithms.base import Algorithm
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import (
    ALL_ROWS,
    APART,
    BY_DATA,
    BY_PROBLEMS,
    BY_SOLVERS,
    COHORT,
    FIXED_ROWS,
    GRAPHS,
    LABELS,
    NOTHING,
    ONE_TARGET,
    OPTIMUM,
    ROUNDS,
    ROW_LOSSES,
    ROWS,
    SERVER,
    Part,
    Terms,
    clashes,
    where,
)
from rayfed.core.plugins import name_of
from rayfed.core.targets import Targets
from rayfed.problems.base import Problem
from rayfed.problems.own_code.problem import OwnCode
from rayfed.solvers.base import Solver
from rayfed.study.scenario.invalid import together
from rayfed.study.scenario.study import Study

_OUT = "leave it out"


def check_declared(
    study: Study, problem: Problem, classes: int | None = None, target: Targets | None = None
) -> None:
    """Refuse parts of a study that do not go together.

    Parameters
    ----------
    study : Study
    problem : Problem
        Its problem, which may have met its rows.
    classes : int, optional
        Classes of the targets, 0 for numbers, once they are known.
    target : Targets, optional
        Targets that are not one label or number a row, once they are known.

    Raises
    ------
    ScenarioError
        With the dotted key of each part to change.
    """
    common = [*_data(study, problem, classes, target), *_evaluation(study)]
    wrong: dict[str, ScenarioError] = {}  # one for each place
    for index in range(len(study.algorithms)):
        for place, text in clashes([*_of_algorithm(study, index), *common]):
            error = study.blamed(index, ScenarioError(place, text))
            wrong.setdefault(error.place, error)
    if wrong:
        raise together(wrong.values())


def check_accuracy(problem: Problem, place: str) -> None:
    """Refuse a rule that waits for an accuracy if a problem, which has met its rows, has none."""
    if problem.task == "regression" or (problem.task == "own" and not isinstance(problem, OwnCode)):
        text = f"'{problem.name}' predicts no classes here, so there is no accuracy"
        raise ScenarioError(place, f"{text}; use the loss")


def needs_of(algorithm: Algorithm) -> Terms:
    """Return all needs of an algorithm: those of its class, and those of its settings."""
    return algorithm.needs | algorithm.setting_needs


def of_problem(problem: Problem) -> Part:
    """Return a problem as a part, which is never to blame."""
    removes = BY_PROBLEMS - problem.gives
    removes |= where({LABELS: problem.task == "regression", OPTIMUM: not problem.has_optimum})
    instead = "choose another method, or another problem"
    return Part("", f"'{problem.name}'", problem.setting_needs, removes, instead)


def _data(
    study: Study, problem: Problem, classes: int | None, target: Targets | None
) -> Iterator[Part]:
    """Yield the problem, its data, and the parts that change or assign rows."""
    yield of_problem(problem)
    if study.data is not None:
        removes = BY_DATA - study.data.gives | where(
            {LABELS: classes == 0, ONE_TARGET: target is not None}
        )
        yield Part("problem.dataset", f"dataset '{study.data.name}'", NOTHING, removes)
    if (partition := study.partition) is not None:
        yield Part("partition", f"'{partition.name}'", partition.needs, NOTHING, _OUT)
        needs = where({LABELS: partition.flip})
        yield Part("partition.flip", f"flip: {partition.flip:g}", needs, NOTHING, _OUT)
    if (drift := study.drift) is not None:
        yield Part("drift", f"'{drift.name}'", drift.needs, drift.removes, _OUT)
    for place, availability in study.clients.availabilities.items():
        by_label = not availability.needs.isdisjoint({"ranks", "holds"})
        name, needs = f"'{availability.name}' by label", where({LABELS: by_label, ROWS: by_label})
        yield Part(place, name, needs, NOTHING, _OUT)
    if study.topology is None:
        yield Part("topology", "topology", NOTHING, frozenset({GRAPHS}))


def _evaluation(study: Study) -> Iterator[Part]:
    """Yield the parts of the evaluation."""
    evaluate, gap = study.evaluate, frozenset({OPTIMUM, FIXED_ROWS, ALL_ROWS})
    if evaluate.gap:
        yield Part("evaluate.gap", "gap: true", gap, NOTHING, _OUT)
    if study.stop.loss_gap is not None:
        yield Part("stop.loss_gap", f"loss_gap: {study.stop.loss_gap:g}", gap, NOTHING, _OUT)
    if evaluate.rows is not None:
        needs, removes = frozenset({ROWS, ROW_LOSSES, FIXED_ROWS}), frozenset({ALL_ROWS})
        yield Part("evaluate.rows", f"rows: {evaluate.rows}", needs, removes, _OUT)
    for place, measure in evaluate.asked.items():
        yield Part(place, f"'{name_of(measure)}'", measure.needs, NOTHING, _OUT)


def _of_algorithm(study: Study, index: int) -> Iterator[Part]:
    """Yield an algorithm, and the parts that a study has for each algorithm."""
    algorithm, participation = study.algorithms[index], study.participation_of(index)
    name, select = f"'{study.labels[index]}'", participation.select
    needs = needs_of(algorithm).union(*(measure.needs for measure in algorithm.measures))
    removes = where({
        ROUNDS: algorithm.asynchronous, SERVER: algorithm.gossip, APART: algorithm.centralised,
    })  # fmt: skip
    yield Part("", name, needs, removes)
    solvers = {f"algorithm.{f.name}": getattr(algorithm, f.name) for f in fields(algorithm)}
    for group, solver in enumerate(study.group_solvers(index)):
        solvers[f"clients.groups.{group}.local"] = solver
    for place, solver in solvers.items():
        if isinstance(solver, Solver):
            removes = BY_SOLVERS - solver.gives
            yield Part(place, f"'{solver.name}'", solver.needs, removes, "use another local solver")
    instead = "give select: uniform"
    yield Part("participation.select", f"'{select.name}'", select.needs, select.removes, instead)
    if participation.cohort is not None:
        cohort = f"cohort: {participation.cohort}"
        yield Part("participation.cohort", cohort, frozenset({COHORT}), NOTHING, _OUT)
    for number, fault in enumerate(() if algorithm.centralised else study.clients.faults):
        yield Part(f"clients.faults.{number}", f"'{fault.name}'", fault.needs, fault.removes, _OUT)
