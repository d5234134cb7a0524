"""Local steps by the Gram matrix end where those with all columns end.

Every problem whose scores are linear in the model, with every solver whose steps are.
"""

import numpy as np
import pytest

from rayfed.clients import gram
from rayfed.core.plugins import find
from rayfed.datasets.base import Table
from rayfed.solvers import Descent, Exponential
from rayfed.testing.toy import clients_of

CLASSES = {"regression": 0, "binary": 2, "multiclass": 4}
SIZES = [12, 9, 10, 11, 12, 10, 12, *range(1, 9)]
"""Nine sizes, so that rows are padded; those of the first seven clients to 12."""
FEATURES = 20
STEPS = np.array([9, 4, 12, 1, 9, 9, 3])

PROBLEMS = {
    name: cls
    for name, cls in find("problems").items()
    if not cls.libraries and cls.task != "own" and cls().linear_scores(2) is not None
}
SOLVERS = {
    name: cls for name, cls in find("solvers").items() if issubclass(cls, Descent) and cls.linear
}
SETTINGS = [
    ({}, {}),
    ({"l2": 0.1}, {"batch": "full"}),
    ({"intercept": False, "divide_by": "none", "l2_per": "sample", "l2": 0.1}, {"lr": 0.005}),
    ({"l2": 0.05}, {"momentum": 0.9, "lr": 0.02}),
    ({}, {"mu": 0.3, "weight_decay": 0.1, "sampling": "shuffle"}),
    ({}, {"clip_norm": 0.2}),
    (
        {"l2": 0.1},
        {"momentum": 0.5, "mu": 0.3, "weight_decay": 0.1, "clip_norm": 0.5, "lr": Exponential()},
    ),
]


def test_every_linear_problem_and_solver_is_looked_at():
    assert set(PROBLEMS) == {"least-squares", "logistic-regression", "softmax-regression"}
    assert set(SOLVERS) == {"sgd"}


def case(problem, solver, dtype):
    """Return seven clients, their models at the start, and corrections."""
    rng = np.random.default_rng(0)
    n, classes = sum(SIZES), CLASSES[problem.task]
    y = rng.integers(0, classes, n) if classes else rng.standard_normal(n)
    table = Table(
        rng.standard_normal((n, FEATURES)), y, classes, client=np.repeat(np.arange(15), SIZES)
    )
    clients = clients_of(
        table, problem, solver=solver, ids=np.arange(7), steps=STEPS, round=3, dtype=dtype
    )
    x, correction = rng.standard_normal((2, 7, clients.p)).astype(dtype)
    return clients, x, 0.1 * correction


@pytest.fixture
def by_gram(monkeypatch):
    """Return a function that sends all clients that are covered one way or the other."""

    def send(by_gram):
        monkeypatch.setattr(gram, "FEWEST_NUMBERS", 0 if by_gram else 10**9)
        monkeypatch.setattr(gram, "fewest_steps", lambda *sizes: 1)

    return send


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-12), (np.float32, 1e-6)])
@pytest.mark.parametrize("corrected", [False, True])
def test_both_ways_end_at_the_same_models(problem, solver, dtype, rtol, corrected, by_gram):
    for of_problem, of_solver in SETTINGS:
        given = {"batch": 5, "lr": 0.05, **of_solver}
        clients, x, correction = case(problem(**of_problem), solver(**given), dtype)
        added = correction if corrected else None
        by_gram(True)
        assert clients._by_gram() == 7
        local = clients.solve(x, correction=added)
        alone = [
            clients.only(k).solve(x[k], correction=added[k : k + 1] if corrected else None)
            for k in range(7)
        ]
        by_gram(False)
        assert clients._by_gram() == 0
        expected = clients.solve(x, correction=added)
        assert local.x.dtype == dtype
        scale = np.abs(expected.x).max()
        np.testing.assert_allclose(local.x, expected.x, rtol=0, atol=rtol * scale)
        np.testing.assert_allclose(local.loss, expected.loss, rtol=rtol)
        # whoever computes beside a client, its bits are its own
        np.testing.assert_array_equal(np.concatenate([one.x for one in alone]), local.x)
        np.testing.assert_array_equal(np.concatenate([one.loss for one in alone]), local.loss)
