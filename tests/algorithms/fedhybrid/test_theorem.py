"""The theorem's steps against what it says, on random quadratics."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import eigh

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


def test_a_dual_bound_with_the_square_of_m_plus_mu_is_too_long(terms):
    """b = min(mu/9, a (m + mu)^2 / 21) with the a of (4.2): the likely reading of the print.

    Of 40 clients on a line one is curved, and mu is large. From the worst state, in which the 39
    are alike, Delta rises by 2.15 % in one round.
    """
    n, mu, m = 40, 353.0, 0.0053
    task = terms(n, 1, -1.0, seed=0)
    bends = np.r_[np.full(n - 1, m), 0.7 * mu]
    task.H, task.b, task.least = bends[:, None, None], np.zeros((n, 1)), 0.0
    theorem = Theorem(bends, bends, np.zeros(n, bool), mu)
    primal, ours = theorem.steps
    assert primal[0] == pytest.approx(1 / (22 * mu / 9 + 2 * 0.7 * mu))
    read = np.full(n, min(mu / 9, primal[0] * (m + mu) ** 2 / 21))

    def merit(v, second):
        """Delta of a state (x and lambda of the 39, of the last), after a round if it has steps."""
        x, dual = (np.r_[np.full(n - 1, v[k]), v[k + 1]][:, None] for k in (0, 2))
        x0 = x.mean(axis=0) - dual.mean(axis=0) / mu
        if second is not None:
            x, dual, x0 = task.round(x, dual, x0, mu, theorem.newton, primal, second)
        return task.merit(x, dual, x0, mu)

    def form(second):
        unit = np.eye(4)
        return [[(merit(u + v, second) - merit(u - v, second)) / 4 for v in unit] for u in unit]

    worst_ours, worst_read = (
        eigh(form(second), form(None), eigvals_only=True)[-1] for second in (ours, read)
    )
    assert worst_read == pytest.approx(1.0215, abs=5e-4)
    assert worst_ours <= theorem.contraction


def flat(terms, seed):
    """Three terms of rank 2 in 4 dimensions, along which their sum is flat in two as well."""
    task = terms(3, 4, -0.5, seed)
    A = task.rng.normal(size=(3, 2, 2)) @ task.rng.normal(size=(2, 4))
    task.H = A.swapaxes(1, 2) @ A
    task.b = np.einsum("iab,ib->ia", task.H, task.rng.normal(size=(3, 4)))
    best = np.linalg.lstsq(task.H.sum(axis=0), task.b.sum(axis=0), rcond=1e-10)[0]
    task.least = -0.5 * task.b.sum(axis=0) @ best
    return task


def squares(task, x, dual, x0, mu):
    """Return Delta, ||grad g(lambda)||^2 and ||grad_x L||^2."""
    inverse = np.linalg.inv(task.H + mu * np.eye(task.d))
    matrix = mu * (task.n * np.eye(task.d) - mu * inverse.sum(axis=0))
    right = np.sum(mu * np.einsum("iab,ib->ia", inverse, task.b + dual) - dual, axis=0)
    z0 = np.linalg.lstsq(matrix, right, rcond=1e-10)[0]
    z = np.array([inverse[i] @ (task.b[i] + dual[i] + mu * z0) for i in range(task.n)])
    g = task.lagrangian(z, dual, z0, mu)
    slope = np.einsum("iab,ib->ia", task.H, x) - task.b - dual + mu * (x - x0)
    delta = 13 * (task.least - g) + task.lagrangian(x, dual, x0, mu) - g
    return delta, np.sum((z0 - z) ** 2), np.sum(slope**2)


@pytest.mark.parametrize("mu", [0.1, pytest.param(1.0, marks=pytest.mark.slow), 10.0])
@pytest.mark.parametrize(("share", "bounded"), [(1.0, True), (0.1, False)])
def test_squared_gradients_add_up_to_no_more_than_the_first_delta(terms, mu, share, bounded):
    """Theorem 4.3: without strong convexity the mean of squared gradients falls as 1 / T.

    What Delta loses in a round is 7 b ||grad g||^2 + 0.3 a ||grad_x L||^2 or more, so that T times
    the mean of that is at most the first Delta. A tenth of the steps converges too, and fails.
    """
    for seed in range(3):
        task = flat(terms, seed)
        primal = 1 / (22 * mu / 9 + 2 * np.linalg.eigvalsh(task.H).max())
        second = min(mu / 9, primal * mu**2 / 21)
        x, dual = 3 * task.rng.normal(size=(3, 4)), np.zeros((3, 4))
        x0, spent, newton = x.mean(axis=0), [], np.zeros(3, bool)
        first = last = squares(task, x, dual, x0, mu)
        for _ in range(700):
            spent.append(7 * second * last[1] + 0.3 * primal * last[2])
            steps = np.full((2, 3), share) * [[primal], [second]]
            x, dual, x0 = task.round(x, dual, x0, mu, newton, *steps)
            last = squares(task, x, dual, x0, mu)
        assert last[0] < first[0]
        assert (sum(spent) <= first[0]) == bounded


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
