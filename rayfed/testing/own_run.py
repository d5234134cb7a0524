"""Checks of own training code: its functions depend on their arguments alone, and train the model.

Most checks compare digests of the results for a few clients. As a program, ``python -m
rayfed.testing.own_run CODE`` prints those of a fresh process.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from rayfed import api
from rayfed.core.arrays import Array
from rayfed.core.errors import RayfedError, ScenarioError, clipped
from rayfed.core.threads import one_thread
from rayfed.engine.run import Run
from rayfed.problems.own_code.functions import Context, seeds_of
from rayfed.problems.own_code.problem import NAMES, BoundOwnCode
from rayfed.solvers.base import Local
from rayfed.solvers.own_train import OwnTrain
from rayfed.testing.checks.common import require

CLIENTS = 3
"""Clients that are looked at."""
Digests: TypeAlias = Mapping[str, str]
"""Digests of bytes by the call: ``train of client 1``."""


def run_of(code: str) -> Run:
    """Return the first run of own code.

    Parameters
    ----------
    code : str
        Path of a scenario file, or name of a module for a run with default settings.

    Raises
    ------
    ScenarioError
        If the study is wrong, or its problem is no own code.
    """
    if Path(code).suffix in (".yaml", ".yml"):
        study = api.read(code)
    else:
        study = api.read(
            {
                "problem": {"name": "own-code", "code": code},
                "algorithms": [{"name": "fedavg", "local": {"name": "own-train", "steps": 2}}],
                "clients": {"count": CLIENTS},
                "rounds": 1,
            }
        )
    run = api.prepare(study).runs[0]
    if not isinstance(run.training.problem, BoundOwnCode):
        raise ScenarioError("problem", "is no own code; test plug-ins as module:Class")
    return run


def trained(
    run: Run, problem: BoundOwnCode, client: int, most: int | None = None
) -> tuple[Local, Mapping[str, Array], Mapping[str, Array]]:
    """Return the result of one client's training from the first model, and how it is told.

    Parameters
    ----------
    most : int, optional
        Largest number of local steps; the client's own otherwise.
    """
    solver, x0, ids = run.training.solvers[0], run.training.x0, np.array([client])
    assert isinstance(solver, OwnTrain)
    sizes = run.federation.views.training.shards.sizes(ids)
    steps = int(solver.step_counts(sizes, np.ones(1), ids=ids)[0])
    (seed,) = seeds_of(problem.key, ids)
    state = {name: row[None] for name, row in solver.initial(x0.dtype).items()}
    context = Context(client, 1, min(steps, most or steps), seed)
    with one_thread():
        return solver.train(problem, x0[None], [context], sizes, state)


def digests(run: Run, order: Sequence[int]) -> Digests:
    """Return digests of the results of own code for clients, in this order."""
    assert isinstance(run.training.problem, BoundOwnCode)
    problem = replace(run.training.problem)  # which makes its model anew
    shards, found = run.federation.views.training.shards, {}
    with one_thread():
        for i in order:
            local, after, metrics = trained(run, problem, i)
            parts = [local.x, local.loss, *after.values(), *metrics.values()]
            found[f"train of client {i}"] = _digest(*parts)
            for part in problem.parts:
                n = int(shards.sizes(np.array([i]), part)[0])
                if n:
                    values = problem.evaluated(local.x[0], i, part, n)
                    found[f"evaluate of client {i}, {NAMES[part]}"] = _digest(
                        *map(float, values.values())
                    )
    return found


def _digest(*parts: object) -> str:
    joined = b"".join(np.ascontiguousarray(part).tobytes() for part in parts)
    return hashlib.blake2b(joined, digest_size=8).hexdigest()


def _fresh(code: str) -> Digests:
    """Return the digests of a fresh process."""
    path = {"PYTHONPATH": os.pathsep.join(place or "." for place in [*sys.path, str(Path.cwd())])}
    command = [sys.executable, "-P", "-m", "rayfed.testing.own_run", code]
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, env=dict(os.environ) | path
    )
    if ended.returncode:
        lines = ended.stderr.strip().splitlines() or ["no reason given"]
        raise RayfedError(f"it fails in a fresh process: {clipped(lines[-1], 200)}")
    found: Digests = json.loads(ended.stdout.splitlines()[-1])
    return found


def checks(code: str) -> Mapping[str, Callable[[], None]]:
    """Return the checks of own code by name.

    Parameters
    ----------
    code : str
        As for `run_of`.
    """
    run = run_of(code)
    problem, solver = run.training.problem, run.training.solvers[0]
    assert isinstance(problem, BoundOwnCode)
    assert isinstance(solver, OwnTrain)
    order = range(min(CLIENTS, run.federation.clients.count))
    first = digests(run, order)

    def check_trained() -> None:
        """Check that training changes the model that it is given."""
        ends = [trained(run, problem, i)[0].x for i in order]
        changed = any(not np.array_equal(end[0], run.training.x0) for end in ends)
        require(changed, "train leaves the model as it was; change the one that it is given")

    def check_steps() -> None:
        """Check that training stops earlier if it is given fewer steps."""
        ends = [[trained(run, problem, i, most)[0].x for i in order] for most in (None, 1)]
        fewer = any(not np.array_equal(*pair) for pair in zip(*ends, strict=True))
        require(fewer, "train does the same for 1 step as for all; take context.steps steps")

    def check_again() -> None:
        """Check that functions return the same when they are called again."""
        _require_same(first, digests(run, order))

    def check_order() -> None:
        """Check that functions return the same in another order of clients."""
        _require_same(first, digests(run, order[::-1]))

    def check_process() -> None:
        """Check that functions return the same in a fresh process."""
        _require_same(first, _fresh(code))

    fewer = run.participation.late == "partial" or solver.time_s or solver.varying
    made = (check_trained, *([check_steps] if fewer else []), check_again, check_order)
    return {check.__name__: check for check in (*made, check_process)}


def _require_same(first: Digests, found: Digests) -> None:
    """Raise an AssertionError unless digests are the same."""
    odd = [name for name in first if found[name] != first[name]]
    require(not odd, f"{(odd or [''])[0]} differs; let it depend on its arguments alone")


if __name__ == "__main__":
    given = run_of(sys.argv[1])
    print(json.dumps(digests(given, range(min(CLIENTS, given.federation.clients.count)))))
