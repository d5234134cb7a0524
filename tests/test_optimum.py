"""F* against methods that share nothing with it: normal equations, and scipy on plain NumPy."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from rayfed import api
from rayfed.errors import ScenarioError

CLIENT = np.repeat([0, 1, 2], [4, 9, 6])
N, SIZES = 3, np.array([4.0, 9.0, 6.0])
L2 = 0.05


@pytest.fixture(scope="module")
def data():
    """Return features (19, 3) with very different scales, and numbers to predict."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(19, 3)) * [1.0, 10.0, 0.1]
    return X, X @ [2.0, -0.3, 5.0] + 1.5 + rng.normal(size=19)


@pytest.fixture
def scenario(data, tmp_path):
    """Return a function that makes a scenario on these rows."""
    X, y = data

    def make(name, **keys):
        target = (y > 1.5).astype(int) if name != "least-squares" else y
        frame = pd.DataFrame(X, columns=list("abc")).assign(client=CLIENT, y=target)
        frame.to_csv(tmp_path / "rows.csv", index=False, float_format="%.17g")
        return {
            "rounds": 1,
            "evaluate": {"gap": True},
            "problem": {"name": name, "dataset": str(tmp_path / "rows.csv"), "l2": L2, **keys},
            "clients": {},
            "algorithms": ["fedavg"],
            "executor": "serial",
        }

    return make


def optimum(scenario):
    """Return F* as a plan finds it."""
    (run,) = api.prepare(api.read(scenario)).runs
    return run.optimum


def shares(divide_by, l2_per, weighting):
    """Return the weight of each row in F (19,), and the coefficient of half ||x||^2."""
    D = {"samples": SIZES, "all-samples": np.full(N, 19.0), "none": np.ones(N)}[divide_by]
    l2 = L2 / {"client": np.ones(N), "population": np.full(N, 3.0), "sample": SIZES}[l2_per]
    w = {"size": SIZES / 19, "uniform": np.ones(N) / N, "sum": np.ones(N)}[weighting]
    return (w / D)[CLIENT], w @ l2


EVERY = list(
    itertools.product(
        ("samples", "all-samples", "none"),
        ("client", "population", "sample"),
        ("size", "uniform", "sum"),
    )
)


@pytest.mark.parametrize("keys", EVERY, ids="-".join)
def test_ridge_regression_by_the_normal_equations(data, scenario, keys):
    rows, ridge = shares(*keys)
    A, y = np.column_stack([data[0], np.ones(19)]), data[1]
    x = np.linalg.solve(A.T @ (rows[:, None] * A) + ridge * np.eye(4), A.T @ (rows * y))
    best = 0.5 * rows @ (A @ x - y) ** 2 + ridge / 2 * x @ x
    names = ("divide_by", "l2_per", "weighting")
    found = optimum(scenario("least-squares", **dict(zip(names, keys, strict=True))))
    assert found == pytest.approx(best, rel=1e-11)


def test_an_intercept_that_is_spared(data, scenario):
    A, y = np.column_stack([data[0], np.ones(19)]), data[1]
    R = L2 * np.diag([1.0, 1.0, 1.0, 0.0])
    x = np.linalg.solve(A.T @ A / 19 + R, A.T @ y / 19)
    best = 0.5 * np.mean((A @ x - y) ** 2) + x @ R @ x / 2
    found = optimum(scenario("least-squares", regularise_intercept=False))
    assert found == pytest.approx(best, rel=1e-11)


def test_logistic_regression_by_an_independent_minimisation(data, scenario):
    A, y = np.column_stack([data[0], np.ones(19)]), (data[1] > 1.5).astype(float)

    def F(x):  # noqa: N802 - as in the formulas
        z = A @ x
        return np.mean(np.log1p(np.exp(-np.abs(z))) + np.maximum(z, 0) - y * z) + L2 / 2 * x @ x

    best = min(
        minimize(F, start, method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-15,
                                                           "maxiter": 20000, "maxfev": 20000}).fun
        for start in (np.zeros(4), np.ones(4))
    )  # fmt: skip
    found = optimum(scenario("logistic-regression"))
    assert found == pytest.approx(best, abs=1e-12)


def test_softmax_with_two_classes_is_logistic_with_half_the_l2(scenario):
    """Of all x_1 - x_0 = z the least ||x_0||^2 + ||x_1||^2 is ||z||^2 / 2."""
    softmax = optimum(scenario("softmax-regression", l2=2 * L2))
    assert softmax == pytest.approx(optimum(scenario("logistic-regression")), abs=1e-12)


def test_float32_is_measured_in_float32(scenario):
    """The gap is that of the losses as they are computed, not negative by rounding of the data."""
    one = optimum(scenario("least-squares"))
    two = optimum(scenario("least-squares") | {"dtype": "float32"})
    assert two != one
    assert two == pytest.approx(one, rel=1e-5)


def test_a_sample_of_clients_cannot_tell(scenario):
    given = scenario("least-squares") | {"evaluate": {"gap": True, "clients": 2}}
    with pytest.raises(ScenarioError, match=r"evaluate\.gap: needs `evaluate.clients: all`"):
        optimum(given)


def test_it_is_not_computed_unless_something_asks(scenario):
    given = scenario("least-squares")
    assert optimum(given | {"evaluate": {}}) is None
    assert optimum(given | {"evaluate": {}, "stop": {"loss_gap": 0.1}}) is not None
