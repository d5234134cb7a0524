"""Data and models that often are not what was meant, with numbers worked out by hand."""

import numpy as np
import pytest

from rayfed import api
from rayfed.datasets.base import Table
from rayfed.study.plan.beware import of_module, of_table

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
