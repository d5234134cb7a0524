"""Data, models and aims that often are not what was meant, with numbers worked out by hand."""

import numpy as np
import pytest

from rayfed import api
from rayfed.datasets.base import Table
from rayfed.study.plan import notices
from rayfed.study.plan.notices import of_module, of_table
from rayfed.testing.toy import tiny_run, toy_scenario

WEIGHS = "not F: updates weigh clients"
PLAIN = f"the plain mean of the F_i, {WEIGHS} equally, F weighs them by size; give"
BY_SIZE = f"the mean of the F_i by size, {WEIGHS} by size, F weighs them equally; give"
FINE = np.arange(40.0).reshape(20, 2) / 20  # no row twice


def table(X=FINE, y=None, classes=2, **more):
    y = np.arange(len(X)) % 2 if y is None else np.asarray(y)
    return Table(X, y, classes, **more)


def test_nothing_is_said_of_ordinary_rows():
    assert of_table(table()) == ()
    assert of_table(table(y=FINE[:, 0], classes=0)) == ()
    pixels = np.random.default_rng(0).integers(0, 256, (50, 9), dtype=np.uint8)
    assert of_table(table(pixels, scale=255.0, shift=0.5)) == ()


def test_features_that_are_large_are_named():
    X = FINE.copy()
    X[:, 1] = 30.0 * (-1.0) ** np.arange(20)
    (line,) = of_table(table(X, names=("age", "income"), y=X[:, 0], classes=0))
    assert line.startswith("1 of 2 features are larger than 20, feature 'income' most (30,")
    assert of_table(table(X, scale=np.array([1.0, 30.0]))) == ()
    assert "feature 2 most" in of_table(table(X))[0]
    assert of_table(table(X), own=False) == ()


@pytest.mark.parametrize(("most", "said"), [(16, False), (17, True)])
def test_a_class_that_most_rows_are_of(most, said):
    lines = of_table(table(y=np.repeat([1, 0], [most, 20 - most]), labels=("no", "yes")))
    assert bool(lines) == said
    if said:
        assert lines[0].startswith("85 % of the rows are of class 'yes'")


def test_of_large_tables_rows_are_drawn_by_the_seed(monkeypatch):
    """Labels alternate and features do with them; every second row would show one kind alone."""
    monkeypatch.setattr(notices, "_NUMBERS", 1000)
    kind = np.arange(1000) % 2
    X = np.stack([kind * 30.0, np.arange(1000) / 1000], axis=1)
    assert of_table(table(X, kind)) == of_table(table(X, kind), 0)
    for seed in range(3):
        (line,) = of_table(table(X, kind), seed)  # 30 / sqrt(2) = 21.2 > 20, not 0 and not 30
        size = float(line.partition("most (")[2].partition(",")[0])
        assert abs(size - 30 / np.sqrt(2)) < 2.0  # of 500 rows; one deviation is 0.34
    assert of_table(table(X, kind), 1) != of_table(table(X, kind), 2)


def test_classes_are_counted_over_all_rows(monkeypatch):
    monkeypatch.setattr(notices, "_NUMBERS", 2)
    y = np.repeat([1, 0], [17, 3])
    assert of_table(table(y=y))[0].startswith("85 % of the rows are of class '1'")
    assert of_table(table(y=np.arange(20) % 2)) == ()


def test_equal_rows_of_different_labels():
    X = np.repeat(FINE[:10], 10, axis=0)
    y = np.repeat(np.arange(10) % 2, 10)
    assert of_table(table(X, y)) == ()
    wrong = y.copy()
    wrong[[0, 1]] = 1 - wrong[[0, 1]]  # 98 % of the rows can be right
    assert of_table(table(X, wrong)) == ()
    wrong[10] = 1 - wrong[10]
    (line,) = of_table(table(X, wrong))
    assert "no model is right about more than 97 % of them" in line


@pytest.mark.parametrize(
    ("last", "said"),
    [("Softmax", True), ("LogSoftmax", False), ("Identity", False), ("Sigmoid", False)],
)
def test_a_softmax_under_the_cross_entropy(last, said):
    nn = pytest.importorskip("torch.nn")

    def model(inputs, outputs):
        end = getattr(nn, last)
        return nn.Sequential(nn.Linear(inputs[0], outputs), end(-1) if "max" in last else end())

    study = {
        "name": "x", "rounds": 1, "clients": {"count": 4}, "algorithms": ["fedavg"],
        "problem": {"name": "network", "model": model, "dataset": "synthetic"},
        "executor": "serial",
    }  # fmt: skip
    (run,) = api.prepare(api.read(study)).runs
    assert bool(run.record["beware"]) == said
    if said:
        assert "leave out the module's softmax" in run.record["beware"][0]


def test_problems_without_a_module_are_not_looked_at():
    assert of_module(object(), np.zeros(1), None) == ()


def aims(*algorithms, weighting="size", **changes):
    """Return what is said of each algorithm, in their order."""
    made = toy_scenario(*algorithms, **changes)
    made["problem"] = made["problem"] | {"weighting": weighting}
    return [run.record["aim"] for run in api.prepare(api.read(made)).runs]


@pytest.mark.parametrize("weighting", ["uniform", "sum"])
def test_means_by_size_aim_at_another_point_where_f_weighs_alike(weighting):
    found = aims(
        "fedavg", "mifa", "scaffold", "feddyn", {"name": "fedavg", "label": "w", "weights": "size"},
        weighting=weighting,
    )  # fmt: skip
    assert set(found) == {f"the minimised objective is {BY_SIZE} weights: uniform to minimise F"}


def test_plain_means_aim_at_another_point_where_f_weighs_by_size():
    found = aims({"name": "fedavg", "weights": "uniform"}, "fedbuff", "fedasync", "rwsadmm")
    way, other = "weights: size to minimise F", "problem.weighting: uniform to make that F"
    assert found == [f"the minimised objective is {PLAIN} {w}" for w in (way, way, other, other)]


def test_draws_by_size_are_weights():
    weighted = {"participation": {"cohort": 3, "select": "weighted"}}
    twice = {"name": "fedavg", "weights": "size"}
    assert aims("fedavg", "fedvarp", **weighted) == ["", ""]
    (found,) = aims("fedavg", weighting="uniform", **weighted)
    assert found == f"the minimised objective is {BY_SIZE} problem.weighting: size to make that F"
    (found,) = aims(twice, **weighted)
    assert found == (
        f"the minimised objective is sum_i n_i^2 F_i, {WEIGHS} by size squared (by size in the "
        "draw and in the mean), F weighs them by size; give weights: uniform to minimise F"
    )
    corrected = {"cohort": 3, "select": "weighted", "correct": "known"}
    assert aims(twice, participation=corrected) == [""]


@pytest.mark.parametrize("weighting", ["size", "uniform"])
def test_nothing_is_said_of_methods_that_have_the_weights_of_f(weighting):
    matching = {"name": "fedavg", "weights": weighting}
    others = ["gradient-descent", "disco", "giant", "fedhybrid", "local-only", "maxfl"]
    assert set(aims(matching, *others, weighting=weighting)) == {""}


def test_nothing_is_said_where_clients_are_of_one_size():
    alike = {"partition": {"name": "iid"}, "clients": {"count": 8}}
    assert aims("fedavg", weighting="uniform", **alike) == [""]
    arriving = alike | {"drift": {"name": "arriving", "clients": [1]}}
    assert aims("fedavg", weighting="uniform", **arriving) != [""]


def test_a_run_warns_of_it(tmp_path):
    problem = {"name": "least-squares", "dataset": "line", "weighting": "uniform"}
    result = tiny_run(tmp_path, "fedavg", problem=problem, rounds=1)
    assert [line for line in result.warnings if BY_SIZE in line]


def test_the_means_that_are_named_are_those_that_fedavg_takes(tmp_path):
    """One full step from 0 goes along the gradient of the mean that is said."""
    X, client = np.ones((4, 1)), np.array([0, 1, 1, 1])
    data = {"X": X, "y": 4.0 * client, "client": client}
    problem = {
        "name": "least-squares", "intercept": False, "weighting": "uniform",
        "dataset": {"name": "arrays", "data": data},
    }  # fmt: skip
    local = {"steps": 1, "batch": "full", "lr": 1.0}
    result = tiny_run(
        tmp_path, {"name": "fedavg", "local": local}, problem=problem, partition=None, rounds=1,
        clients={"count": 2}, participation={},
    )  # fmt: skip
    assert result.model("fedavg").tolist() == [3.0]
    assert "the mean of the F_i by size" in " ".join(result.warnings)
