"""Checks of local solvers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rayfed.clients import Clients
from rayfed.datasets.base import Table
from rayfed.problems.least_squares import LeastSquares
from rayfed.problems.softmax import SoftmaxRegression
from rayfed.solvers.base import Solver
from rayfed.solvers.own_train import OwnTrain
from rayfed.testing.checks.common import require, require_equal
from rayfed.testing.examples import examples
from rayfed.testing.toy import clients_of

SIZES = np.array([6, 3, 1, 5, 6, 2, 4])
_FEATURES = 3
_STEPS = np.array([9, 4, 12, 1, 9, 9, 3])  # of the wide models
_ROUNDING = 1e-10


def variants(cls: type[Any], folder: Path) -> list[Any]:
    """Return the examples of a class; none of own code, which has no rows to check it on."""
    return [] if issubclass(cls, OwnTrain) else examples(cls, folder)


def check_budget(solver: Solver) -> None:
    """Check that each client gets a whole number of steps, at least 1, independent of others."""
    ids = np.arange(len(SIZES))
    steps = solver.step_counts(SIZES, np.ones(7), ids=ids, seed=2, draw=3)
    require(steps.dtype.kind == "i" and steps.shape == (7,), f"{solver}: steps are {steps}")
    require(steps >= 1, f"{solver}: a client gets {steps.min()} steps")
    alone = [
        solver.step_counts(SIZES[k : k + 1], np.ones(1), ids=ids[k : k + 1], seed=2, draw=3)[0]
        for k in range(7)
    ]
    require_equal(np.array(alone), steps, f"{solver}: neighbours change the steps")


def check_stacks(solver: Solver) -> None:
    """Check that a client alone ends at the bits that it ends at in a stack of seven."""
    for dtype in (np.float64, np.float32):
        clients = _clients(solver, dtype)
        x = _start(clients, dtype)
        together = clients.solve(x)
        require(together.x.dtype == dtype, f"{solver}: {np.dtype(dtype)} became {together.x.dtype}")
        for k in range(len(SIZES)):
            alone = clients.only(k).solve(x[k : k + 1])
            text = f"{solver}, {np.dtype(dtype)}: client {k} alone"
            require_equal(alone.x[0], together.x[k], f"{text} ends elsewhere")
            require_equal(alone.loss[0], together.loss[k], f"{text} has another loss")


def check_pure(solver: Solver) -> None:
    """Check that the first model is not written to, and that the same steps end alike."""
    clients = _clients(solver)
    x = _start(clients)
    x.flags.writeable = False
    first, again = clients.solve(x), clients.solve(x)
    require_equal(again.x, first.x, f"{solver}: the same steps end elsewhere")
    require((first.x != x).any(), f"{solver} does not move")


def check_descent(solver: Solver) -> None:
    """Check that local steps lower every client's objective, summed over clients."""
    clients = _clients(solver)
    x = _start(clients)
    before, after = clients.value(x).sum(), clients.value(clients.solve(x).x).sum()
    require(after < before, f"{solver}: the objectives went from {before:g} to {after:g}")


def check_wide(solver: Solver) -> None:
    """Check that wide linear models end where steps on all their columns end.

    Some solvers may use the Gram matrix of linear models there; asked to show the model after every
    step, none does.
    """
    clients = _wide(solver)
    x = _start(clients)
    local = clients.solve(x)
    shown = clients.solve(x, after_step=lambda now, members: None)
    off = np.abs(local.x - shown.x).max() / np.abs(shown.x).max()
    require(off < _ROUNDING, f"{solver}: {clients.p} numbers end elsewhere, {off:.1e} off")
    np.testing.assert_allclose(local.loss, shown.loss, rtol=_ROUNDING)


def _wide(solver: Solver) -> Clients:
    """Return clients of 6 rows with models of 610 numbers: more than `gram.FEWEST_NUMBERS`."""
    rng = np.random.default_rng(8)
    n = 6 * len(_STEPS)
    X, y = rng.standard_normal((n, 60)), rng.integers(0, 10, n)
    table = Table(X, y, 10, client=np.repeat(np.arange(len(_STEPS)), 6))
    return clients_of(table, SoftmaxRegression(), solver=solver, steps=_STEPS)


def _clients(solver: Solver, dtype: npt.DTypeLike = np.float64) -> Clients:
    rng = np.random.default_rng(6)
    n = int(SIZES.sum())
    table = Table(
        rng.standard_normal((n, _FEATURES)),
        rng.standard_normal(n),
        client=np.repeat(np.arange(len(SIZES)), SIZES),
    )
    return clients_of(table, LeastSquares(), solver=solver, seed=1, dtype=dtype)


def _start(clients: Clients, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[np.floating]:
    rng = np.random.default_rng(7)
    return 3 * rng.standard_normal((len(SIZES), clients.p)).astype(dtype)
