"""Metrics of predictions, against scikit-learn on the rows and scores of the final model."""

from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

import rayfed
from rayfed import api
from rayfed.core.errors import LibraryMissing, ScenarioError
from rayfed.measures.base import Predictions
from rayfed.measures.metrics import METRICS, Metrics, by_kind, concordance, metric

SIZES = (11, 1, 6, 2)
N = sum(SIZES)
CLIENT = np.repeat(np.arange(4), SIZES)
RNG = np.random.default_rng(4)
X = RNG.normal(size=(N, 3))
LABELS = np.where(CLIENT == 2, 1, np.arange(N) % 3)  # one client has a single class
NUMBERS = X @ [1.0, -2, 0.5] + RNG.normal(size=N)
NAMES = ["balanced_accuracy", "macro_f1", "f1_1", "auc", "top_2", "perplexity"]
OF_NUMBERS = ["rmse", "mae", "r2", "quantile_0.9", "concordance"]


LEARN = pytest.mark.skipif(not find_spec("sklearn"), reason="needs scikit-learn")


def gini(y, z):
    """Return a number that tells which rows were given."""
    return float(np.sum(y) + len(z))


def scenario(y, problem, of, *, clients=True, **more):
    data = {"X": X, "y": y, "client": CLIENT}
    measures = [{"name": "metrics", "of": of, "per_client": clients}]
    return {
        "name": "metrics", "rounds": 3, "executor": "serial",
        "problem": {"name": problem, "dataset": {"name": "arrays", "data": data}},
        "participation": {"select": "all", "cohort": None},
        "algorithms": [{"name": "fedavg", "local": {"steps": 2, "batch": "full", "lr": 0.2}}],
        "evaluate": {"measures": measures},
    } | more  # fmt: skip


def last(tmp_path, *given, **more):
    """Return the last row of a run, and its model."""
    result = rayfed.run(scenario(*given, **more), out=tmp_path / "out")
    return result.rounds.iloc[-1], result.weights("fedavg-seed0")


def by_client(function, *arrays):
    """Return the finite values of a metric over clients, ascending."""
    found = np.array([function(*(a[i == CLIENT] for a in arrays)) for i in range(4)])
    return np.sort(found[np.isfinite(found)])


@pytest.fixture
def learn():
    return pytest.importorskip("sklearn.metrics", reason="needs scikit-learn")


def or_nan(function, *given, **settings):
    try:
        return function(*given, **settings)
    except ValueError:
        return np.nan


@pytest.mark.filterwarnings("ignore")
def test_metrics_of_classes_are_those_of_scikit_learn(learn, tmp_path):
    row, x = last(tmp_path, LABELS, "softmax-regression", NAMES)
    z = np.hstack([X, np.ones((N, 1))]) @ x.reshape(3, 4).T
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    all_three = np.arange(3)
    expected = {
        "balanced_accuracy": lambda y, z, p: learn.balanced_accuracy_score(y, z.argmax(1)),
        "macro_f1": lambda y, z, p: learn.f1_score(y, z.argmax(1), average="macro"),
        "f1_1": lambda y, z, p: learn.f1_score(y, z.argmax(1), average=None, labels=[1])[0],
        "auc": lambda y, z, p: or_nan(
            learn.roc_auc_score, y, p, multi_class="ovr", labels=all_three
        ),
        "top_2": lambda y, z, p: learn.top_k_accuracy_score(y, z, k=2, labels=all_three),
        "perplexity": lambda y, z, p: np.exp(learn.log_loss(y, p, labels=all_three)),
    }
    for name, function in expected.items():
        np.testing.assert_allclose(row[name], function(LABELS, z, p), rtol=1e-10, err_msg=name)
        each = by_client(function, LABELS, z, p)
        np.testing.assert_allclose(row[f"{name}_client_mean"], each.mean(), rtol=1e-10)
        worst = each[-1] if name == "perplexity" else each[0]
        np.testing.assert_allclose(row[f"{name}_client_worst_decile"], worst, rtol=1e-10)


@pytest.mark.filterwarnings("ignore")
def test_metrics_of_two_classes_and_of_numbers_are_those_of_scikit_learn(learn, tmp_path):
    two = (NUMBERS > 0).astype(int)
    row, x = last(tmp_path / "two", two, "logistic-regression", ["auc", "perplexity"])
    z = np.hstack([X, np.ones((N, 1))]) @ x
    np.testing.assert_allclose(row.auc, learn.roc_auc_score(two, z))
    loss = learn.log_loss(two, 1 / (1 + np.exp(-z)))
    np.testing.assert_allclose(row.perplexity, np.exp(loss))
    row, x = last(tmp_path / "numbers", NUMBERS, "least-squares", OF_NUMBERS)
    z = np.hstack([X, np.ones((N, 1))]) @ x
    expected = {
        "rmse": learn.root_mean_squared_error, "mae": learn.mean_absolute_error,
        "r2": learn.r2_score,
        "quantile_0.9": lambda y, z: learn.mean_pinball_loss(y, z, alpha=0.9),
    }  # fmt: skip
    for name, function in expected.items():
        np.testing.assert_allclose(row[name], function(NUMBERS, z), rtol=1e-10, err_msg=name)
        each = by_client(function, NUMBERS, z)
        assert len(each) == (3 if name == "r2" else 4)  # of one row it is not defined
        np.testing.assert_allclose(row[f"{name}_client_mean"], each.mean(), rtol=1e-9)


def test_perplexity_and_own_functions_need_no_library(tmp_path):
    row, x = last(tmp_path, LABELS, "softmax-regression", ["perplexity", gini])
    z = np.hstack([X, np.ones((N, 1))]) @ x.reshape(3, 4).T
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    nll = -np.log(p[np.arange(N), LABELS])
    np.testing.assert_allclose(row.perplexity, np.exp(nll.mean()))
    np.testing.assert_allclose(
        row.perplexity_client_mean, np.mean([np.exp(nll[i == CLIENT].mean()) for i in range(4)])
    )
    assert row.gini == LABELS.sum() + N
    assert row.gini_client_mean == row.gini / 4


def pairwise(y, z):
    """Return Harrell's index, pair by pair."""
    right, pairs = 0.0, 0
    for (t, e), r in zip(y, z, strict=True):
        for (u, f), s in zip(y, z, strict=True):
            if e and (u > t or (u == t and not f)):
                pairs += 1
                right += 1.0 if s < r else 0.5 if s == r else 0.0
    return right / pairs if pairs else np.nan


@pytest.mark.parametrize("n", [0, 1, 2, 17])
def test_concordance_counts_pairs(n):
    y = np.stack([RNG.integers(0, 5, n), RNG.integers(0, 2, n)], 1).astype(float)
    z = RNG.integers(0, 4, (n, 1)).astype(float)
    np.testing.assert_equal(concordance(y, z), pairwise(y, z[:, 0]))
    numbers = np.stack([y[:, 0], np.ones(n)], 1)
    np.testing.assert_equal(concordance(y[:, :1], z), pairwise(numbers, -z[:, 0]))


@pytest.mark.parametrize("low", [-0.3, 0.1, 2.0])
def test_the_best_of_two_classes_is_accuracy_whatever_the_margins(low):
    margins = low + np.array([0.0, 0.1, 0.2, 0.3])
    y, z = np.array([1, 0, 1, 1]), np.stack([-margins / 2, margins / 2], axis=1)
    assert metric("top_1").of(y, z) == np.mean(y == (margins > 0))
    assert metric("top_2").of(y, z) == 1


@pytest.mark.parametrize("name", [*METRICS, "f1_0", "top_1", "quantile_0.5"])
def test_without_rows_and_of_a_diverged_model_a_metric_is_nan(name):
    each = metric(name)
    wide, y = (np.zeros((0, 2)), np.zeros(0, int)) if "classes" in each.kinds else (
        np.zeros((0, 1)), np.zeros((0, 1)))  # fmt: skip
    assert np.isnan(each.of(y, wide))
    assert np.isnan(
        each.of(np.zeros((2, *y.shape[1:]), y.dtype), np.full((2, wide.shape[1]), np.nan))
    )


def test_positions_of_sequences_are_rows_and_ignored_ones_are_none():
    rows = Predictions(
        np.array([0, 2]), np.array([[1.0, -100], [0, 1]]), np.arange(12.0).reshape(2, 6)
    )
    client, y, z = by_kind(rows, "classes")
    assert client.tolist() == [0, 2, 2]
    assert y.tolist() == [1, 0, 1]
    assert z.tolist() == [[0, 1, 2], [6, 7, 8], [9, 10, 11]]


def test_rows_of_clients_are_joined_in_the_order_of_clients():
    parts = [
        Predictions(np.array([1, 3, 3]), np.ones((3, 1)), np.array([[1.0], [3], [4]])),
        Predictions(np.array([0, 2]), np.zeros((2, 1)), np.array([[0.0], [2]])),
    ]
    joined = Predictions.joined(parts)
    assert joined.client.tolist() == [0, 1, 2, 3, 3]
    assert joined.z.ravel().tolist() == [0, 1, 2, 3, 4]
    assert joined.y.ravel().tolist() == [0, 1, 0, 1, 1]
    assert len(Predictions.joined([]).client) == 0


def test_held_out_rows_of_clients_and_of_the_server_are_scored(tmp_path):
    held = scenario(LABELS, "softmax-regression", ["perplexity"])
    held["problem"]["test"] = 0.4
    rounds = rayfed.run(held, out=tmp_path / "held").rounds
    np.testing.assert_allclose(rounds.perplexity, np.exp(rounds.test_loss))
    at_server = scenario(LABELS, "softmax-regression", ["perplexity"])
    at_server["problem"]["dataset"]["data"] |= {"X_test": X[:5], "y_test": LABELS[:5]}
    rounds = rayfed.run(at_server, out=tmp_path / "server").rounds
    np.testing.assert_allclose(rounds.perplexity, np.exp(rounds.test_loss))
    at_server["algorithms"][0]["name"] = "local-only"
    rounds = rayfed.run(at_server, out=tmp_path / "none").rounds
    assert rounds.perplexity.isna().all()


def test_some_rows_are_scored_where_evaluations_look_at_some(tmp_path):
    study = scenario(LABELS, "softmax-regression", ["perplexity", gini])
    study["problem"]["test"] = 0.4
    study["evaluate"]["rows"] = 4
    rounds = rayfed.run(study, out=tmp_path / "out").rounds
    np.testing.assert_allclose(rounds.perplexity, np.exp(rounds.test_loss))


def test_models_of_the_clients_own_are_scored_where_there_is_no_other(tmp_path):
    study = scenario(LABELS, "softmax-regression", ["perplexity"])
    study["algorithms"][0]["name"] = "local-only"
    rounds = rayfed.run(study, out=tmp_path / "out").rounds
    assert rounds.perplexity.is_monotonic_decreasing


def test_bytes_are_those_of_any_placement(tmp_path):
    study = scenario(LABELS, "softmax-regression", ["perplexity"])
    found = [
        rayfed.run(study, out=tmp_path / str(k), overrides={"executor": how}).rounds
        for k, how in enumerate(("serial", {"name": "workers", "workers": 2}))
    ]
    pd.testing.assert_frame_equal(*found, check_exact=True)


@pytest.mark.parametrize(
    ("of", "problem", "message"),
    [
        (["f2"], "softmax-regression", "unknown metric 'f2'"),
        (["top_0"], "softmax-regression", "unknown metric 'top_0'"),
        (["quantile_1"], "softmax-regression", "unknown metric 'quantile_1'"),
        ([lambda y, z: 0.0], "softmax-regression", "called '<lambda>'; name it"),
        ([], "softmax-regression", "found no metric"),
        pytest.param(["f1_3"], "softmax-regression", "'f1_3' of 3 classes", marks=LEARN),
        (["os:remove"], "softmax-regression", "'os' is of Python's own library"),
        (["numpy:save"], "softmax-regression", "'numpy' is an installed library"),
        (["rayfed.api:run"], "softmax-regression", "was only imported there"),
        (["rayfed.measures:Metrics"], "softmax-regression", "is no function; give one"),
        (["perplexity", "perplexity"], "softmax-regression", "found 'perplexity' twice"),
        (["concordance"], "softmax-regression", "where 'softmax-regression' predicts classes"),
        (["perplexity"], "least-squares", "not defined where 'least-squares' predicts numbers"),
        (["accuracy"], "softmax-regression", "unknown metric 'accuracy'"),
    ],
)  # fmt: skip
def test_what_is_not_defined_is_refused_in_one_line(of, problem, message):
    y = NUMBERS if problem == "least-squares" else LABELS
    with pytest.raises(ScenarioError, match=message) as raised:
        api.prepare(api.read(scenario(y, problem, of)))
    assert raised.value.place.startswith("evaluate.measures")
    assert "\n" not in str(raised.value)


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setattr("rayfed.measures.metrics.find_spec", lambda name: None)
    with pytest.raises(LibraryMissing, match="'auc' needs scikit-learn; install it with: pip"):
        api.prepare(api.read(scenario(LABELS, "softmax-regression", ["auc"])))


def test_columns_may_not_be_taken():
    def loss(y, z):
        return 0.0

    with pytest.raises(ScenarioError, match="the column 'loss' is taken"):
        api.prepare(api.read(scenario(LABELS, "softmax-regression", [loss])))
    assert [c.better for c in Metrics(of=("mae", "r2")).columns_of(None)] == ["lower", "higher"]
