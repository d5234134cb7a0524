"""Validation rows: what rows of a run say of them by hand, and that nobody trains on them."""

import numpy as np
import pandas as pd
import pytest

import rayfed
from rayfed import api
from rayfed.core.errors import ScenarioError

SIZES = (1, 2, 5, 12)
PARTS = ("train", "test", "validation")
LR = 0.5


@pytest.fixture
def data():
    """Return rows of clients of unequal sizes, one of which has a single row."""
    rng = np.random.default_rng(3)
    client = np.repeat(np.arange(4), SIZES)
    X = rng.normal(size=(len(client), 2)) + client[:, None]
    y = (X[:, 0] + rng.normal(size=len(client)) > 1).astype(int)
    return pd.DataFrame({"client": client, "a": X[:, 0], "b": X[:, 1], "y": y})


@pytest.fixture
def scenario(tmp_path):
    """Return a function that writes a table and makes a scenario of it: one full step a round."""

    def make(data, name="fedavg", **problem):
        data.to_csv(tmp_path / "rows.csv", index=False)
        return {
            "name": "validated", "rounds": 1, "dtype": "float64",
            "problem": {
                "name": "logistic-regression", "dataset": str(tmp_path / "rows.csv"),
                "intercept": False, "test": 0.25, "validation": 0.4,
            } | problem,
            "clients": {},
            "algorithms": [{"name": name, "local": {"steps": 1, "batch": "full", "lr": LR}}],
            "executor": "serial",
        }  # fmt: skip

    return make


def rows_of(made):
    """Return X and y of each client and part, as a plan splits them."""
    plan = api.prepare(api.read(made))
    run = plan.runs[0]
    shards = run.federation.views.evaluation.with_table(plan.tables).shards
    found = {}
    for part in PARTS:
        for client in range(4):
            ids = np.array([client])
            X, y = shards.rows(ids, int(shards.sizes(ids, part)[0]), part)
            found[part, client] = X[0], y[0]
    return found


def losses(x, rows):
    """Return the losses of some rows (n,) and which predictions are right (n,)."""
    X, y = rows
    z = X @ x
    return np.log1p(np.exp(-(2 * y - 1) * z)), (z > 0) == (y == 1)


def local_step(rows):
    """Return the model after one step from zero: the gradient there is mean (1/2 - y) x."""
    X, y = rows
    return -LR * np.mean((0.5 - y)[:, None] * X, axis=0)


def test_the_global_model_on_all_validation_rows(scenario, data, tmp_path):
    made = scenario(data)
    rows = rows_of(made)
    # of 1, 2, 5 and 12 rows: round(n / 4) tests, round(0.4 n) for validation, one stays
    assert [len(rows["validation", i][1]) for i in range(4)] == [0, 1, 2, 5]
    assert [len(rows["train", i][1]) for i in range(4)] == [1, 1, 2, 4]
    train = {i: rows["train", i] for i in range(4)}
    sizes = np.array([len(y) for _, y in train.values()])
    x = np.average([local_step(each) for each in train.values()], axis=0, weights=sizes)
    found = [losses(x, rows["validation", i]) for i in range(4)]
    last = rayfed.run(made, out=tmp_path / "out", page=False).rounds.iloc[-1]
    assert last.validation_loss == pytest.approx(np.concatenate([v for v, _ in found]).mean())
    right = np.concatenate([hits for _, hits in found])
    assert last.validation_accuracy == pytest.approx(right.mean())
    tested = np.concatenate([losses(x, rows["test", i])[0] for i in range(4)])
    assert last.test_loss == pytest.approx(tested.mean())


@pytest.mark.parametrize("name", ["ditto", "local-only"])
def test_personal_models_on_their_clients_own_validation_rows(scenario, data, tmp_path, name):
    made = scenario(data, name)
    rows = rows_of(made)
    own = {i: losses(local_step(rows["train", i]), rows["validation", i]) for i in (1, 2, 3)}
    last = rayfed.run(made, out=tmp_path / "out", page=False).rounds.iloc[-1]
    # client 0 has no validation row: the mean is over the others, each counting once
    mean = np.mean([values.mean() for values, _ in own.values()])
    assert last.personal_validation_loss == pytest.approx(mean)
    share = np.mean([right.mean() for _, right in own.values()])
    assert last.personal_validation_accuracy == pytest.approx(share)
    if name == "local-only":  # without a global model: the same models, every row counting once
        pooled = np.concatenate([values for values, _ in own.values()]).mean()
        assert last.validation_loss == pytest.approx(pooled)


def test_nobody_trains_on_validation_rows(scenario, data, tmp_path):
    made = scenario(data) | {"rounds": 3}
    held = np.concatenate([rows_of(made)["validation", i][0][:, 0] for i in range(4)])
    other = data.copy()
    place = np.isin(other["a"], held)
    assert place.sum() == 8
    other.loc[place, ["a", "b"]] += 100.0
    first = rayfed.run(made, out=tmp_path / "first", page=False)
    second = rayfed.run(scenario(other) | {"rounds": 3}, out=tmp_path / "second", page=False)
    np.testing.assert_array_equal(first.weights(), second.weights())
    told = ["validation_loss", "validation_accuracy"]
    pd.testing.assert_frame_equal(first.rounds.drop(columns=told), second.rounds.drop(columns=told))
    assert (first.rounds.validation_loss[1:] != second.rounds.validation_loss[1:]).all()


def test_without_the_key_nothing_is_said_of_validation(scenario, data, tmp_path):
    columns = rayfed.run(
        scenario(data, validation=None), out=tmp_path / "out", page=False
    ).rounds.columns
    assert not [name for name in columns if "validation" in name]


def test_with_a_test_file_the_clients_hold_out_validation_rows_alone(scenario, data, tmp_path):
    data.drop(columns="client").to_csv(tmp_path / "test.csv", index=False)
    made = scenario(data, test=str(tmp_path / "test.csv"))
    rows = rows_of(made)
    assert [len(rows["train", i][1]) for i in range(4)] == [1, 1, 3, 7]
    last = rayfed.run(made, out=tmp_path / "out", page=False).rounds.iloc[-1]
    assert np.isfinite([last.test_loss, last.validation_loss]).all()


def test_where_nobody_can_hold_out_a_row_that_is_said(scenario, data):
    made = scenario(data.groupby("client").head(1))
    with pytest.raises(ScenarioError, match=r"problem.validation: found 0.4, but no client"):
        api.prepare(api.read(made))


def test_validation_rows_drift_as_the_others_do(scenario, data, tmp_path):
    """The features of client 3 change their sign from round 2 on."""
    made = scenario(data) | {"rounds": 2}
    rows = rows_of(made)
    turned = {(part, i): (-X if i == 3 else X, y) for (part, i), (X, y) in rows.items()}
    sizes = np.array([len(rows["train", i][1]) for i in range(4)])
    x = np.zeros(2)
    for held in (rows, turned):
        steps = []
        for X, y in (held["train", i] for i in range(4)):
            steps.append(x - LR * np.mean((1 / (1 + np.exp(-X @ x)) - y)[:, None] * X, axis=0))
        x = np.average(steps, axis=0, weights=sizes)
    found = [losses(x, turned["validation", i]) for i in range(4)]
    made["drift"] = {"name": "rotation", "angle": 180, "at": 2, "clients": [3]}
    last = rayfed.run(made, out=tmp_path / "out", page=False).rounds.iloc[-1]
    assert last.validation_loss == pytest.approx(np.concatenate([v for v, _ in found]).mean())
    still = np.concatenate([losses(x, rows["validation", i])[0] for i in range(4)]).mean()
    assert last.validation_loss != pytest.approx(still)


def test_clients_of_feddrift_are_scored_with_the_model_that_they_use(scenario, data, tmp_path):
    """As long as there is one model, it is what FedAvg trains."""
    last = {}
    for name in ("fedavg", "feddrift"):
        result = rayfed.run(scenario(data, name), out=tmp_path / name, page=False)
        last[name] = result.rounds.iloc[-1]
    assert last["feddrift"].validation_loss == pytest.approx(last["fedavg"].validation_loss)
    train = {i: rows_of(scenario(data))["train", i] for i in range(4)}
    held = {i: rows_of(scenario(data))["validation", i] for i in (1, 2, 3)}
    sizes = [len(y) for _, y in train.values()]
    x = np.average([local_step(each) for each in train.values()], axis=0, weights=sizes)
    own = np.mean([losses(x, each)[0].mean() for each in held.values()])
    assert last["feddrift"].personal_validation_loss == pytest.approx(own)
