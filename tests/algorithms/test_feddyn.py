"""FedDyn: rounds by hand, its fixed points, and the paper's pseudo-code in plain NumPy."""

import numpy as np
import pandas as pd
import pytest

import rayfed
from rayfed.algorithms import FedDyn
from rayfed.solvers import SGD
from rayfed.testing import answer, points, reply


def feddyn(lr, steps, **more):
    return {"name": "feddyn", "local": {"steps": steps, "batch": "full", "lr": lr}, **more}


def test_the_server_steps_along_its_memory():
    state = {"x": np.array([4.0, 0.0]), "h": np.array([1.0, -1.0])}
    replies = reply({"delta": [2.0, -1.0]}, population=8)
    after, diagnostics, (ask,) = answer(FedDyn(alpha=0.5), state, replies)
    assert set(ask.send) == {"x"}
    assert dict(ask.up) == {"delta": 2}
    assert after["h"].tolist() == [1.25, -1.125]  # 0.5 * 2 / 8 of the mean is added
    assert after["x"].tolist() == [4 - 2 - 2.5, 0 + 1 + 2.25]
    assert diagnostics == {}


def test_a_client_keeps_what_the_bent_objective_left():
    """F(y) = (y - 6)^2 / 2, h = 1, alpha = 2: from 4 along (4 - 6) - 1, then along the rest."""
    clients = points([6.0], solver=SGD(steps=2, batch="full", lr=0.5), state={"h": [1.0]})
    upload = FedDyn(alpha=2.0).train(clients, np.array([4.0]))
    # y = 4 + 1.5 = 5.5, then the gradient is -0.5 - 1 + 2 * 1.5 = 1.5: y = 4.75
    assert upload.values["delta"].tolist() == [[-0.75]]
    assert upload.state["h"].tolist() == [[1.0 - 2 * 0.75]]


@pytest.mark.parametrize(
    "settings",
    [
        {"participation": {"cohort": 1}},
        {"weights": "uniform"},
        {"weighting": "uniform"},
        {"weighting": "uniform", "weights": "uniform", "participation": {"cohort": 1}},
        {"participation": {"cohort": 2, "select": "weighted"}},
        {"weighting": "uniform", "participation": {"cohort": 2, "select": "weighted"}},
    ],
    ids=lambda s: " ".join(f"{k}={v}" for k, v in s.items()),
)
def test_clients_that_drift_apart_reach_the_minimum_of_the_mean(line, settings):
    """Rows 1 and 3, 2 and 8 steps: the mean of F_i is least at 3 by size, the plain one at 2."""
    keys = dict(settings)
    weights = keys.pop("weights", None)
    algorithm = feddyn(0.2, 2, alpha=0.5, weights=weights)
    found = line(
        algorithm, rows=(1, 3), rounds=250,
        clients={"groups": [{"ids": [1], "local": {"steps": 8}}]}, **keys,
    )  # fmt: skip
    least = 2.0 if weights == "uniform" else 3.0
    assert found["feddyn"] == pytest.approx(least, abs=1e-8)


def rows_of_clients(sizes, d, seed):
    rng = np.random.default_rng(seed)
    A = [rng.standard_normal((n, d)) for n in sizes]
    y = [a @ rng.standard_normal(d) + rng.standard_normal(len(a)) for a in A]
    return A, y


def pseudo_code(A, y, cohorts, steps, lr, alpha):
    """Algorithm 1 with clients weighed by their rows, one client after the other."""
    sizes = np.array([len(a) for a in A])
    share = sizes / sizes.mean()
    x, server = np.zeros(A[0].shape[1]), np.zeros(A[0].shape[1])
    h = np.zeros((len(A), len(x)))
    for cohort in cohorts:
        theta = {}
        for i in cohort:
            theta[i] = x.copy()
            for _ in range(steps[i]):
                gradient = A[i].T @ (A[i] @ theta[i] - y[i]) / sizes[i]
                theta[i] = theta[i] - lr * (gradient - h[i] + alpha * (theta[i] - x))
            h[i] = h[i] - alpha * (theta[i] - x)
        moved = sum(share[i] * (theta[i] - x) for i in cohort)
        server = server - alpha / len(A) * moved
        x = sum(sizes[i] * theta[i] for i in cohort) / sizes[list(cohort)].sum() - server / alpha
    return x


def test_rounds_are_those_of_the_papers_pseudo_code(tmp_path):
    sizes, d = [4, 9, 2, 7, 5], 3
    A, y = rows_of_clients(sizes, d, seed=1)
    frame = pd.DataFrame(np.concatenate(A), columns=list("abc"))
    frame = frame.assign(y=np.concatenate(y), client=np.repeat(np.arange(5), sizes))
    frame.to_csv(tmp_path / "rows.csv", index=False, float_format="%.17g")
    result = rayfed.run(
        {
            "rounds": 30,
            "problem": {
                "name": "least-squares", "intercept": False, "dataset": str(tmp_path / "rows.csv"),
            },
            "clients": {"groups": [{"ids": [1, 4], "local": {"steps": 9}}]},
            "participation": {"cohort": 3},
            "algorithms": [feddyn(0.05, 4, alpha=0.3)],
            "executor": "serial",
        },
        out=tmp_path / "out", page=False,
    )  # fmt: skip
    cohorts = result.events.groupby("round").client.apply(lambda ids: sorted(set(ids)))
    expected = pseudo_code(A, y, cohorts, [4, 9, 4, 4, 9], 0.05, 0.3)
    np.testing.assert_allclose(result.model("feddyn-seed0"), expected, rtol=1e-11, atol=1e-12)
