"""The theorem's steps against what it says, on random quadratics."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayfed import api
from rayfed.algorithms.fedhybrid.theorem import Theorem


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 6), d=st.integers(1, 3), low=st.floats(-2, 0), mu=st.floats(-2, 2),
    seed=st.integers(0, 10**6), types=st.lists(st.booleans(), min_size=6, max_size=6),
)  # fmt: skip
def test_delta_falls_in_every_round_at_least_as_fast_as_guaranteed(
    terms, n, d, low, mu, seed, types
):
    task, newton, mu = terms(n, d, low, seed), np.array(types[:n]), 10.0**mu
    eigenvalues = np.linalg.eigvalsh(task.H)
    theorem = Theorem(eigenvalues[:, 0], eigenvalues[:, -1], newton, mu)
    primal, second = theorem.steps
    assert 0 < theorem.contraction < 1
    x, dual = 10 * task.rng.normal(size=(2, n, d))
    x0 = x.mean(axis=0) - dual.mean(axis=0) / mu  # the server's rule
    first = last = task.merit(x, dual, x0, mu)
    for _ in range(15):
        x, dual, x0 = task.round(x, dual, x0, mu, newton, primal, second)
        merit = task.merit(x, dual, x0, mu)
        assert merit <= theorem.contraction * last + 1e-10 * first
        last = merit


def test_the_bound_on_disagreement_is_the_best_there_is_where_mu_is_large():
    """``r = (m + mu P) u`` with n m = mu, P = I - 11'/n; u is 1 for all clients but the last."""
    n, m = 50, 0.02
    mu = n * m
    u = np.r_[np.ones(n - 1), 0.0]
    # the last client is so curved that it does not move: its gradient is not part of r
    e = u - u.mean()
    r = (m * u + mu * e)[:-1]
    assert r @ r / (e @ e) == pytest.approx(4 * m * mu, rel=0.03)
    assert r @ r / (e @ e) < 0.1 * (m + mu) ** 2


@pytest.mark.parametrize(("seed", "mu"), [(7, 10.0), (20, 1.0)])
def test_a_dual_bound_that_knows_nothing_of_the_primal_step_is_too_long(terms, seed, mu):
    """min(mu/9, (m + mu)^2 / (21 l)), which the printed theorem can be read as."""
    task = terms(2, 1, -2.0, seed)
    bends = task.H[:, 0, 0]
    theorem = Theorem(bends, bends, np.zeros(2, bool), mu)
    primal, ours = theorem.steps
    read = np.full(2, min(mu / 9, (bends.min() + mu) ** 2 / (21 * bends.max())))
    first = 10 * task.rng.normal(size=(2, 2, 1))
    factors = []
    for second in (ours, read):
        x, dual = first
        x0 = x.mean(axis=0) - dual.mean(axis=0) / mu
        merits = []
        for _ in range(25):
            merits.append(task.merit(x, dual, x0, mu))
            x, dual, x0 = task.round(x, dual, x0, mu, theorem.newton, primal, second)
        factors.append(max(np.divide(merits[1:], merits[:-1])))
    assert factors[0] <= theorem.contraction
    assert factors[1] > 1.02


SIZES = (8, 9, 12)


def study(tmp_path, name="least-squares", **algorithm):
    """Three clients with some rows each, the last with rows twice as long."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(sum(SIZES), 2)) * np.repeat([1, 1, 2], SIZES)[:, None]
    y = rng.integers(0, 2, len(X))
    frame = pd.DataFrame({"client": np.repeat([0, 1, 2], SIZES), "a": X[:, 0], "b": X[:, 1]})
    frame.assign(y=y if name != "least-squares" else X @ [1, -2]).to_csv(
        tmp_path / "rows.csv", index=False
    )
    keys = {"name": name, "dataset": str(tmp_path / "rows.csv"), "l2": 2.0, "intercept": False}
    scenario = {
        "rounds": 1, "problem": keys, "clients": {}, "executor": "serial",
        "algorithms": [{"name": "fedhybrid", "steps": "theorem", **algorithm}],
    }  # fmt: skip
    return scenario, X


@pytest.mark.parametrize(
    ("name", "bend"), [("least-squares", (1, 1)), ("logistic-regression", (0, 0.25))]
)
def test_the_steps_of_a_study_come_from_its_hessians(tmp_path, name, bend):
    scenario, X = study(tmp_path, name, newton=[1], mu=2.0)
    (run,) = api.prepare(api.read(scenario)).runs
    # f_i is n_i / mean n_j times F_i, a mean over n_i rows and an l2 term
    parts = np.split(X, np.cumsum(SIZES)[:-1])
    ends = [np.linalg.eigvalsh(A.T @ A / len(A))[[0, -1]] * bend + 2.0 for A in parts]
    low, high = (np.array(SIZES) / np.mean(SIZES) * e for e in np.transpose(ends))
    primal, dual = Theorem(low, high, np.array([False, True, False]), 2.0).steps
    found = run.training.algorithm
    assert found.newton == (1,)
    np.testing.assert_allclose(found.alpha_gradient, primal, rtol=1e-12)
    np.testing.assert_allclose(found.alpha_newton, primal, rtol=1e-12)
    np.testing.assert_allclose(found.beta_gradient, dual, rtol=1e-12)
    np.testing.assert_allclose(found.beta_newton, dual, rtol=1e-12)
