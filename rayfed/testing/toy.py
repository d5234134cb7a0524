"""Toy problems: clients that fit on a line of a test, and runs that end within a second."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rayfed import api
from rayfed.clients import Clients
from rayfed.core.arrays import Ints
from rayfed.core.rng import Key
from rayfed.datasets.base import Table
from rayfed.datasets.split import ClientRows, Split
from rayfed.datasets.table import Rows, TableShards
from rayfed.engine.loop import Loop
from rayfed.engine.run import Run
from rayfed.executors.serial import SerialExecutor
from rayfed.problems.base import Problem
from rayfed.problems.least_squares import LeastSquares
from rayfed.problems.objective import Objective
from rayfed.runs.files.outcome import reason
from rayfed.runs.serial import SerialStudy
from rayfed.solvers.base import Solver
from rayfed.solvers.sgd import SGD
from rayfed.study.plan.plan import Plan

TOY: Mapping[str, Any] = {
    "name": "toy",
    "rounds": 10,
    "problem": {"name": "least-squares", "dataset": {"name": "line", "samples": 80, "seed": 0}},
    "partition": {"name": "sizes", "law": "lognormal", "seed": 0},
    "clients": {"count": 8},
    "participation": {"cohort": 4},
    "evaluate": {"every": 5},
    "executor": "serial",
}
"""A scenario without algorithms: a line through 80 points that eight clients share unevenly."""


def points(
    targets: npt.ArrayLike,
    *,
    solver: Solver | None = None,
    state: Mapping[str, npt.ArrayLike] | None = None,
    steps: npt.ArrayLike | None = None,
) -> Clients:
    """Return clients with the objectives ``F_i(x) = (x - m_i)^2 / 2``, for p = 1.

    Parameters
    ----------
    targets : (K,) array of float
        The minimisers m_i.
    solver : Solver, optional
        Their local solver; full-batch gradient descent with one step if None.
    state : mapping of str to (K,) or (K, p) array, optional
        The state that the clients kept.
    steps : (K,) array of int, optional
        Local steps; those of the solver if None.

    Examples
    --------
    >>> points([0.0, 4.0]).gradient(np.array([1.0])).ravel().tolist()
    [1.0, -3.0]
    """
    y = np.asarray(targets, dtype=np.float64)
    table = Table(np.ones((len(y), 1)), y, client=np.arange(len(y)))
    return clients_of(
        table,
        LeastSquares(intercept=False),
        solver=solver or SGD(steps=1, batch="full"),
        state=state,
        steps=steps,
    )


def clients_of(
    table: Table,
    problem: Problem,
    *,
    solver: Solver | None = None,
    ids: npt.ArrayLike | None = None,
    state: Mapping[str, npt.ArrayLike] | None = None,
    steps: npt.ArrayLike | None = None,
    seed: int = 0,
    round: int = 1,
    dtype: npt.DTypeLike = np.float64,
) -> Clients:
    """Return the clients of a table as a client function sees them.

    Parameters
    ----------
    table : Table
        Rows that name their clients in `Table.client`.
    problem : Problem
        What they minimise.
    solver : Solver, optional
        Their local solver; `SGD` if None.
    ids : (K,) array of int, optional
        Which clients; all N if None.
    state : mapping of str to (K,) or (K, p) array, optional
        The state of the clients; numbers are turned into rows of length 1.
    steps : (K,) array of int, optional
        Local steps; those of the solver if None.
    seed, round : int
        Coordinates of keyed draws.
    dtype : dtype
        Of features and regression targets.

    Raises
    ------
    ValueError
        If the table names no clients.
    """
    if table.client is None:
        raise ValueError("the table names no clients; give Table(..., client=...)")
    shards = _shards(table, problem, dtype)
    problem = problem.bound(shards.shape, shards.classes, Key(seed, "init"))
    solver = solver or SGD()
    chosen = np.arange(shards.clients) if ids is None else np.asarray(ids, dtype=np.int64)
    sizes = shards.sizes(chosen)
    return Clients(
        problem=problem,
        objective=Objective(problem, shards.clients, shards.total(), shards.features),
        shards=shards,
        solver=solver,
        ids=chosen,
        sizes=sizes,
        steps=_steps(solver, sizes, chosen, seed, round) if steps is None else np.asarray(steps),
        seed=seed,
        round=round,
        ask=0,
        p=problem.size(shards.features, shards.classes),
        state={name: _rows(values) for name, values in (state or {}).items()},
    )


def toy_scenario(*algorithms: Any, **changes: Any) -> dict[str, Any]:
    """Return the scenario `TOY` with algorithms, and other values for some of its keys.

    Parameters
    ----------
    *algorithms : str, mapping, class or Algorithm
        As a scenario takes them.
    **changes
        Whole sections of the scenario, such as ``rounds=3``.
    """
    return {**TOY, "algorithms": list(algorithms), **changes}


def tiny_run(out: str | Path, *algorithms: Any, **changes: Any) -> api.Result:
    """Run algorithms on the toy problem in this process, without Ray and without a page.

    Parameters
    ----------
    out : path
        Result folder, ``tmp_path`` of a test for example.
    *algorithms, **changes
        As in `toy_scenario`.

    Returns
    -------
    Result
        With the frames `rounds`, `events` and `clients`.

    Raises
    ------
    AssertionError
        If a run fails, with the reason.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     loss = tiny_run(folder, "fedavg").rounds.loss
    >>> bool(loss.iloc[-1] < loss.iloc[0])
    True
    """
    return run_here(toy_scenario(*algorithms, **changes), Path(out))


def loop(scenario: Mapping[str, Any] | Plan, run: Run | None = None) -> Loop:
    """Return the loop of a scenario's first run in this process, before its first round.

    Parameters
    ----------
    scenario : mapping or Plan
        A scenario, or its plan.
    run : Run, optional
        The run, in place of the first one of the plan.

    Examples
    --------
    >>> from rayfed.algorithms import FedAvg
    >>> engine = loop(toy_scenario(FedAvg()))
    >>> state, row = engine.start()
    >>> state, row, ended = engine.step(state)
    >>> row["round"]
    1
    """
    plan = scenario if isinstance(scenario, Plan) else api.prepare(api.read(scenario))
    run = plan.runs[0] if run is None else run
    executor = SerialExecutor(plan.tables)
    executor.open(run.folder, run.setup())
    return Loop(run, executor)


def run_here(scenario: Mapping[str, Any], folder: Path) -> api.Result:
    """Run a scenario in this process; raise an AssertionError with the reason if a run fails."""
    plan = api.prepare(api.read(scenario))
    outcome = SerialStudy(folder).execute(plan.runs, plan.tables, False, lambda *_: None)
    for run, ended in outcome.items():
        if ended != "finished":
            raise AssertionError(f"{run} {ended}: {reason(folder / run)}")
    return api.Result(folder, outcome)


def _shards(table: Table, problem: Problem, dtype: npt.DTypeLike) -> TableShards:
    assert table.client is not None
    count = int(table.client.max()) + 1
    train = ClientRows.of(np.arange(len(table.y)), table.client, count)
    nothing = ClientRows(np.zeros(0, np.int64), np.zeros(count + 1, np.int64))
    rows = Rows.of(table, dtype=dtype, intercept=problem.intercept)
    return TableShards.of(rows, Split(train, nothing), table.classes, table.mass)


def _steps(solver: Solver, sizes: Ints, ids: Ints, seed: int, round: int) -> Ints:
    return solver.step_counts(sizes, np.ones(len(ids)), ids=ids, seed=seed, draw=round)


def _rows(values: npt.ArrayLike) -> npt.NDArray[Any]:
    array = np.asarray(values)
    return array[:, None] if array.ndim == 1 else array
