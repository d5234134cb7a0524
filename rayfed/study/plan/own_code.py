"""Own training code in a plan: its data and its refusals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

import numpy as np

from rayfed.algorithms.base import Algorithm
from rayfed.core.columns import names
from rayfed.core.errors import ScenarioError, clipped
from rayfed.datasets.opaque import OpaqueShards
from rayfed.engine.columns import TAKEN
from rayfed.engine.run import Run
from rayfed.problems.base import Problem
from rayfed.problems.own_code.functions import STATE
from rayfed.problems.own_code.problem import OwnCode
from rayfed.solvers.base import Solver
from rayfed.solvers.own_train import OwnTrain
from rayfed.study import Study
from rayfed.study.plan.data import SeedData
from rayfed.study.plan.shared import Shared


def data_of_code(study: Study, problem: OwnCode, dtype: np.dtype[Any], known: Shared) -> SeedData:
    """Return the data of own training code: the number of examples of each client.

    Parameters
    ----------
    known : Shared
        Sizes of earlier seeds.

    Raises
    ------
    ScenarioError
        If other data are given, the number of clients is missing, or no client has validation
        examples where the problem asks for them.
    """
    if study.data is not None:
        raise ScenarioError("problem.dataset", "own code has data of its own; leave it out")
    count = study.clients.count
    if count is None:
        raise ScenarioError("clients.count", "is missing; give the number of clients")
    local = study.algorithms[0].local
    config = local.config if isinstance(local, OwnTrain) else {}
    problem = problem.of_clients(count, config, study.rounds or 0)
    sizes = known.get(("sizes", problem.code, count), lambda: problem.sizes(count))
    if problem.val and not sizes["validation"].any():
        text = 'is true, but size returns 0 for "val" of all clients'
        raise ScenarioError("problem.val", f"{text}; hold examples out, or leave it out")
    shards = OpaqueShards(sizes, dtype)
    return SeedData(problem, shards, None, {"clients": "", "server": ""})


def charged(solver: Solver, problem: OwnCode) -> Solver:
    """Return a local solver with the costs that own code declares, if it is for own code."""
    return solver.bound(problem.code) if isinstance(solver, OwnTrain) else solver


def with_code(algorithm: Algorithm, problem: OwnCode) -> Algorithm:
    """Return an algorithm whose solvers, ``local`` and further ones, are those of own code.

    ``train`` changes the state and returns the metrics of ``local`` for all of them.
    """
    solvers = {f.name: getattr(algorithm, f.name) for f in fields(algorithm)}
    solvers = {name: each for name, each in solvers.items() if isinstance(each, OwnTrain)}
    local = algorithm.local if isinstance(algorithm.local, OwnTrain) else OwnTrain()
    changed: dict[str, Any] = {
        name: charged(
            replace(
                each,
                metrics={**local.metrics, **each.metrics},
                state={**local.state, **each.state},
            ),
            problem,
        )
        for name, each in solvers.items()
    }
    return replace(algorithm, **changed)


def check_solvers(study: Study, problem: Problem) -> None:
    """Refuse solvers of own code with other problems, and other local solvers with own code.

    Groups of clients have the metrics of their algorithm, and the shapes of its state: columns and
    stored state are those of all clients.

    Raises
    ------
    ScenarioError
        With the key of the solver.
    """
    own = isinstance(problem, OwnCode)
    for index, algorithm in enumerate(study.algorithms):
        held = {f.name: getattr(algorithm, f.name) for f in fields(algorithm)}
        solvers = {f"algorithms.{index}.{name}": value for name, value in held.items()}
        for k, solver in enumerate(study.group_solvers(index)):
            solvers[f"clients.groups.{k}.local"] = solver
        for place, solver in solvers.items():
            if own and place.endswith(".local") and not isinstance(solver, OwnTrain):
                text = f"found '{solver.name}'; own code needs name: own-train"
                raise ScenarioError(place, text)
            if not own and isinstance(solver, OwnTrain):
                text = f"found 'own-train' with problem '{problem.name}'"
                raise ScenarioError(place, f"{text}; use another solver, or problem own-code")
        if own and isinstance(algorithm.local, OwnTrain):
            _check_groups(algorithm.local, study.group_solvers(index))


def _check_groups(local: OwnTrain, groups: Iterable[Solver]) -> None:
    """Refuse groups of clients with other metrics, or with state of one name and other shapes."""
    shapes = {name: row.shape for name, row in local.initial(float).items()}
    for k, solver in enumerate(groups):
        if not isinstance(solver, OwnTrain):
            continue
        place = f"clients.groups.{k}.local"
        if solver.metrics != local.metrics:
            found, known = (clipped(dict(each.metrics), 60) for each in (solver, local))
            text = f"found {found}, where the algorithm has {known}"
            raise ScenarioError(f"{place}.metrics", f"{text}; give the same to all clients")
        for name, row in solver.initial(float).items():
            if shapes.setdefault(name, row.shape) != row.shape:
                text = f"'{name.removeprefix(STATE)}' is {row.shape}, elsewhere {shapes[name]}"
                raise ScenarioError(f"{place}.state", f"{text}; give it another name")


def check_losses(run: Run) -> None:
    """Refuse settings that learn from losses of local steps, if own code returns none.

    Raises
    ------
    ScenarioError
        With the key of the setting.
    """
    problem = run.training.problem
    if not isinstance(problem, OwnCode) or problem.code.training_loss:
        return
    parts = [("local", solver.varying) for solver in run.training.solvers]
    for place, part in [("participation.select", run.participation.select), *parts]:
        if part is not None and part.listens:
            text = f"'{part.name}' learns from losses of local steps, but train returns none"
            raise ScenarioError(place, f"{text}; return a loss, or choose another")


def check_columns(run: Run) -> None:
    """Refuse metrics of own code with the name of another column.

    Raises
    ------
    ScenarioError
        With the key of the metrics.
    """
    plugins = (run.training.algorithm, run.participation.select)
    taken = {*TAKEN, *(name for plugin in plugins for name in names(plugin.diagnostics))}
    taken.update(*(names(measure.columns) for measure in run.measuring.measures.values()))
    for place, columns in run.own_columns.items():
        for name in names(columns):
            if name in taken:
                raise ScenarioError(place, f"the column '{name}' is taken; rename it")
            taken.add(name)
