"""Own training code in a plan: its data and its refusals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from rayfed.clients import Clients
from rayfed.core.arrays import Array
from rayfed.core.columns import names
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import Refusals
from rayfed.core.plugins import raised
from rayfed.datasets.opaque import OpaqueShards
from rayfed.engine.columns import TAKEN
from rayfed.engine.run import Run
from rayfed.problems.own_code.functions import Context
from rayfed.problems.own_code.problem import BoundOwnCode, OwnCode
from rayfed.solvers.base import Solver
from rayfed.solvers.own_train import OwnTrain
from rayfed.study import Study
from rayfed.study.plan.data import SeedData
from rayfed.study.plan.shared import Shared

_NEED = {"cpow-d": "rows", "gradient": "gradients", "heterogeneity": "gradients"}
"""Needs of selections and measures that own code lacks."""


def data_of_code(study: Study, problem: OwnCode, dtype: np.dtype[Any], known: Shared) -> SeedData:
    """Return the data of own training code: the number of examples of each client.

    Parameters
    ----------
    known : Shared
        Sizes of earlier seeds.

    Raises
    ------
    ScenarioError
        If other data are given, rows are chosen, or the number of clients is missing.
    """
    given = {
        "problem.dataset": study.data,
        "partition": study.partition,
        "drift": study.drift,
        "evaluate.rows": study.evaluate.rows,
    }
    for place, value in given.items():
        if value is not None:
            raise ScenarioError(place, "own code has data of its own; leave it out")
    count = study.clients.count
    if count is None:
        raise ScenarioError("clients.count", "is missing; give the number of clients")
    sizes = known.get(("sizes", problem.code, count), lambda: problem.sizes(count))
    shards = OpaqueShards(sizes, dtype)
    return SeedData(problem, shards, None, {"clients": "", "server": ""})


def charged(solver: Solver, problem: OwnCode) -> Solver:
    """Return a local solver with the costs that own code declares, if it is for own code."""
    return solver.bound(problem.code) if isinstance(solver, OwnTrain) else solver


def check_own_code(run: Run) -> None:
    """Refuse parts of a run that do not go with own training code.

    Raises
    ------
    ScenarioError
        If its local solver is another, or a part of the run needs gradients, rows, clients without
        memory or a column of that name.
    """
    for place, text in _refusals(run):
        raise ScenarioError(place, text)
    if isinstance(run.training.problem, OwnCode):
        _check_first_ask(run)


def _refusals(run: Run) -> Refusals:
    own = isinstance(run.training.problem, OwnCode)
    yield from _of_solvers(run, own)
    if own:
        yield from _of_parts(run)
        yield from _of_columns(run)


def _of_solvers(run: Run, own: bool) -> Refusals:
    """Refuse local solvers of own code with other problems, and others with own code."""
    training, algorithm = run.training, run.training.algorithm
    held = {f.name: getattr(algorithm, f.name) for f in fields(algorithm)}.items()
    for name, solver in [*held, *(("local", each) for each in training.solvers)]:
        if isinstance(solver, Solver) and isinstance(solver, OwnTrain) != own:
            found = f"found '{solver.name}' with problem '{training.problem.name}'"
            instead = "give name: own-train" if own else "it is for own-code; leave it out"
            yield f"algorithm.{name}", f"{found}; {instead}"


def _of_parts(run: Run) -> Refusals:
    """Refuse parts that need rows, gradients or clients without memory."""
    training, algorithm = run.training, run.training.algorithm
    if algorithm.centralised:
        text = f"'{algorithm.name}' needs all rows in one place, which own code has not"
        yield "algorithm", f"{text}; leave it out"
    memory = any(solver.state for solver in training.solvers if isinstance(solver, OwnTrain))
    if memory and run.channel.privacy is not None and run.channel.privacy.sampled:
        text = "privacy needs clients without memory, but local.state stays between rounds"
        yield "privacy", f"{text}; leave one of them out"
    select, measures = run.participation.select, run.measuring.measures
    if select.name in _NEED:
        text = f"'{select.name}' needs {_NEED[select.name]}, which own code has not"
        yield "participation.select", f"{text}; give select: uniform"
    for name in sorted(measures.keys() & _NEED.keys()):
        text = f"'{name}' needs {_NEED[name]}, which own code has not; leave it out"
        yield "evaluate.measures", text


def _of_columns(run: Run) -> Refusals:
    """Refuse metrics with the name of another column."""
    plugins = (run.training.algorithm, run.participation.select)
    taken = {*TAKEN, *(name for plugin in plugins for name in names(plugin.diagnostics))}
    taken.update(*(names(measure.columns) for measure in run.measuring.measures.values()))
    for place, columns in run.own_columns.items():
        for name in names(columns):
            if name in taken:
                yield place, f"the column '{name}' is taken; rename it"
            taken.add(name)


def _check_first_ask(run: Run) -> None:
    """Run the client function of the first Ask with code that does nothing."""
    ask = run.first_ask()
    if ask is None:
        return
    setup, problem, solver = run.setup(), run.training.problem, run.training.solvers[0]
    assert isinstance(problem, BoundOwnCode)
    assert isinstance(solver, OwnTrain)
    ids, views = np.zeros(1, dtype=np.int64), setup.views.training
    clients = Clients(
        problem=_Idle.of(problem), objective=views.objective, shards=views.shards,
        solver=replace(solver, metrics={}), ids=ids, sizes=views.shards.sizes(ids),
        steps=np.ones(1, dtype=np.int64), seed=0, round=1, ask=0, p=setup.p, block=1,
        state={name: row[None] for name, row in setup.initial.items()},
    )  # fmt: skip
    try:
        getattr(run.training.algorithm, ask.function)(clients, **ask.send)
    except Exception as error:
        text = f"'{run.training.algorithm.name}' does not go with own code: {raised(error)}"
        raise ScenarioError("algorithm", text) from error


class _Idle(BoundOwnCode):
    """Own code that is not run: the model stays, and losses are 0."""

    @classmethod
    def of(cls, problem: BoundOwnCode) -> _Idle:
        """Return the idle form of a problem."""
        idle = cls(**problem.__getstate__())
        vars(idle)["_template"] = problem._template  # big models are made once
        return idle

    def trained(
        self, x: Array, context: Context, size: int, metrics: Sequence[str]
    ) -> tuple[Array, dict[str, float]]:
        """Return the model itself."""
        return x, {"loss": 0.0}

    def evaluated(self, x: Array, client: int, part: str, size: int) -> dict[str, float]:
        return {"loss": 0.0}
