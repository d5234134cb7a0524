"""Own training code against built-in problems and plain loops."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import rayfed
from rayfed.problems.own_code.functions import ClientCode

SIZES = (1, 2, 7, 30)


def table():
    """Returns rows of four clients of unequal sizes, with labels."""
    draws = np.random.default_rng(5)
    rows = pd.DataFrame(draws.normal(size=(sum(SIZES), 3)), columns=["a", "b", "c"])
    rows["y"] = draws.integers(0, 2, len(rows))
    rows["client"] = np.repeat(np.arange(len(SIZES)), SIZES)
    return rows


def model():
    return {"w": np.zeros(3)}


def client(i):
    rows = table()
    rows = rows[rows["client"] == i]
    return rows[["a", "b", "c"]].to_numpy(), 2.0 * rows["y"].to_numpy() - 1


def size(i, part):
    return SIZES[i] if part == "train" else 0


def logistic(w, X, y):
    """Returns the mean logistic loss with labels -1 and 1, and its gradient."""
    margin = y * (X @ w)
    return np.mean(np.logaddexp(0, -margin)), -(X.T @ (y * expit(-margin))) / len(y)


def train(model, data, context):
    losses = []
    for _ in range(context.steps):
        loss, gradient = logistic(model["w"], *data)
        losses.append(loss)
        model["w"] -= 0.3 * gradient
    return {"loss": np.mean(losses)}


def evaluate(model, data, part):
    X, y = data
    right = (X @ model["w"] > 0) == (y > 0)
    return {"loss": logistic(model["w"], X, y)[0], "accuracy": right.mean()}


CODE = ClientCode(model=model, client=client, size=size, train=train, evaluate=evaluate)


@pytest.fixture
def pair(tmp_path):
    """Returns the results of one scenario with own code and with the built-in problem."""
    path = tmp_path / "rows.csv"
    table().to_csv(path, index=False)
    common = {
        "rounds": 6, "dtype": "float64", "executor": {"name": "serial"}, "seeds": [1],
        "participation": {"cohort": 3},
    }  # fmt: skip

    def make(problem=None, algorithm=None, **keys):
        algorithm = {"name": "fedavg", **(algorithm or {})}
        built_in = {"name": "logistic-regression", "dataset": str(path), "intercept": False}
        count = {"count": len(SIZES), **keys.pop("clients", {})}
        found = []
        for name, given, local in (
            ("own", {"name": "own-code", "code": CODE}, {"name": "own-train", "steps": 4}),
            ("built-in", built_in, {"steps": 4, "batch": "full", "lr": 0.3}),
        ):
            scenario = {
                "name": name, "problem": {**given, **(problem or {})},
                "algorithms": [{**algorithm, "local": local}], "clients": count,
            }  # fmt: skip
            folder = tmp_path / name
            found.append(rayfed.run({**common, **scenario, **keys}, out=folder, page=False))
        return found

    return make


def assert_alike(own, built_in):
    columns = ["round", "time_s", "loss", "participants", "dropped", "late", "local_steps"]
    for name in columns:
        np.testing.assert_allclose(own.rounds[name], built_in.rounds[name], 1e-12, 1e-12, name)
    for name in ("client", "status", "steps", "start_s", "end_s", "loss"):
        one, two = own.events[name], built_in.events[name]
        if one.dtype.kind == "f":
            np.testing.assert_allclose(one, two, 1e-12, 1e-12, err_msg=name)
        else:
            assert one.tolist() == two.tolist(), name
    np.testing.assert_allclose(own.weights(), np.ravel(built_in.weights()), 1e-12, 1e-12)


@pytest.mark.parametrize("weighting", ["size", "uniform", "sum"])
@pytest.mark.parametrize("weights", ["size", "uniform"])
def test_fedavg_is_that_of_the_built_in_problem(pair, weighting, weights):
    own, built_in = pair(problem={"weighting": weighting}, algorithm={"weights": weights})
    assert_alike(own, built_in)
    np.testing.assert_allclose(own.rounds["accuracy"], built_in.rounds["accuracy"])


@pytest.mark.parametrize("name", ["fedexp", "fedvarp", "mifa", "fedadam", "fedbuff", "fedasync"])
def test_methods_are_those_of_the_built_in_problem(pair, name):
    clients = {"delay": {"name": "exponential", "mean_s": 1.0}}
    participation = {} if name in ("fedbuff", "fedasync") else {"cohort": 3}
    more = {"fedbuff": {"buffer": 5, "concurrency": 4}, "fedasync": {"concurrency": 3}}
    algorithm = {"name": name, **more.get(name, {})}
    own, built_in = pair(algorithm=algorithm, clients=clients, participation=participation)
    assert_alike(own, built_in)


@pytest.mark.parametrize("late", ["drop", "partial", "stale"])
def test_late_tasks_are_those_of_the_built_in_problem(pair, late):
    clients = {"delay": {"name": "exponential", "mean_s": 1.0}}
    participation = {"cohort": 3, "deadline_s": 3.0, "late": late}
    own, built_in = pair(clients=clients, participation=participation)
    assert_alike(own, built_in)
    events = own.events[own.events["status"] == "used"]
    found = {
        "drop": own.events["status"] == "late",
        "partial": events["steps"] < 4,
        "stale": events["round"] > events["version"] + 1 if late == "stale" else events["round"],
    }
    assert found[late].any()
