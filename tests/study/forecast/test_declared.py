"""Parts of a study that do not go together are refused before data are read, by name and reason."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import BY_PROBLEMS, NOTHING
from rayfed.core.plugins import find
from rayfed.datasets import Dataset
from rayfed.problems import Problem
from rayfed.problems.layers import Layer
from rayfed.solvers import Local, Solver
from rayfed.testing.studies import drive

OPAQUE, TRAIN = f"{__name__}:Opaque", f"{__name__}:Train"
SGD_ALONE = ("fedavg-finetuned", "fednova")
"""Methods that need nothing of the problem, but steps of SGD."""


@dataclass(frozen=True, kw_only=True)
class Opaque(Problem):
    """A problem with training code of its own, which gives nothing that others may need."""

    name: ClassVar[str] = "opaque"
    task: ClassVar = "own"
    convex: ClassVar[bool] = False
    gives: ClassVar = NOTHING

    def size(self, features, classes):
        return 2

    def layers(self, features, classes):
        return Layer("body.weight", 0, 1), Layer("head.weight", 1, 2)

    def value(self, x, batch):
        return np.zeros(len(batch.w))

    def predict(self, x, X):
        return np.zeros(X.shape[:2])


@dataclass(frozen=True, kw_only=True)
class Train(Solver):
    """The solver of such a problem."""

    name: ClassVar[str] = "train"
    needs: ClassVar = NOTHING
    gives: ClassVar = NOTHING

    def step_counts(self, sizes, seconds_per_step=None, **draw):
        return np.ones(len(sizes), np.int64)

    def run(self, oracles, x, steps, **settings):
        return Local(x + 1, np.zeros(len(x)))


@dataclass(frozen=True, kw_only=True)
class Handles(Dataset):
    """Clients of which nothing but their number is known."""

    name: ClassVar[str] = "handles"
    gives: ClassVar = NOTHING


def scenario(algorithm="fedavg", **changes):
    """Return a scenario with own training code, one algorithm and changes of its keys."""
    method = {"name": algorithm} if isinstance(algorithm, str) else algorithm
    return {
        "rounds": 2,
        "problem": {"name": OPAQUE, "intercept": False, "dataset": "linear"},
        "clients": {"count": 6},
        "algorithms": [{"local": TRAIN, **method}],
    } | changes  # fmt: skip


def refused(given):
    """Return the refusal of a scenario."""
    with pytest.raises(ScenarioError) as error:
        api.prepare(api.read(given))
    return str(error.value)


@pytest.mark.parametrize(
    ("algorithm", "needed", "removed"),
    [
        ("gradient-descent", "gradients of the objective", "'opaque' gives no gradients"),
        ("feddyn", "local steps with corrected gradients", "'train' does not correct local steps"),
        (
            {"name": "scaffold", "option": 1},
            "local steps with corrected gradients",
            "'train' does not correct local steps",
        ),
        ("fedprox", "a proximal term (`mu`) in local steps", "'train' has no proximal term"),
        ("moon", "local steps with corrected gradients", "'train' does not correct local steps"),
        ("centralised", "rows of features and targets", "'opaque' gives no rows"),
        (
            {"name": "clusterfedvarp", "clusters": {"by": "labels"}},
            "class labels",
            "'opaque' has no class labels",
        ),
    ],
)
def test_a_method_that_needs_more_is_refused_with_its_reason(algorithm, needed, removed):
    name = algorithm if isinstance(algorithm, str) else algorithm["name"]
    assert f"'{name}' needs {needed}, but {removed}" in refused(scenario(algorithm))


@pytest.mark.parametrize(
    ("changes", "place", "text"),
    [
        ({"algorithms": ["fedavg"]}, "algorithms.0.local", "'sgd' needs gradients"),
        ({"partition": "labels"}, "partition", "'labels' needs class labels"),
        ({"partition": {"name": "iid", "flip": 0.5}}, "partition.flip", "needs class labels"),
        ({"drift": "labels-swap"}, "drift", "'labels-swap' needs class labels"),
        ({"evaluate": {"rows": 5}}, "evaluate.rows", "rows: 5 needs rows"),
        ({"evaluate": {"gap": True}}, "evaluate.gap", "needs a known optimum"),
        ({"evaluate": {"measures": ["heterogeneity"]}}, "evaluate.measures.0", "needs gradients"),
        ({"evaluate": {"measures": ["gradient"]}}, "evaluate.measures.0", "'gradient' needs"),
        (
            {"clients": {"count": 4, "availability": {"name": "cyclic", "by": "label"}}},
            "clients.availability", "'cyclic' by label needs class labels",
        ),
        (
            {"clients": {"count": 4, "faults": [{"name": "label-flip", "count": 1}]}},
            "clients.faults.0", "'label-flip' needs class labels",
        ),
    ],
)  # fmt: skip
def test_a_part_that_needs_rows_or_labels_is_refused_with_its_reason(changes, place, text):
    found = refused(scenario(**changes))
    assert f"{place}: " in found
    assert text in found
    assert "but 'opaque' " in found


def test_data_that_are_not_rows_refuse_the_same_parts():
    problem = {"name": "softmax-regression", "dataset": f"{__name__}:Handles"}
    found = refused(scenario(problem=problem, partition="iid", algorithms=["centralised"]))
    assert "partition: 'iid' needs all rows in a table, but dataset 'handles' makes the" in found
    assert "problem.dataset: 'centralised' needs rows" in found
    assert "but dataset 'handles' gives no rows" in found


@pytest.mark.parametrize("name", sorted(find("algorithms")))
def test_every_algorithm_runs_with_own_training_code_or_is_refused_by_name(name, tmp_path):
    cls = find("algorithms")[name]
    made = scenario(name, **({"topology": "ring"} if cls.gossip else {}))
    if cls.needs & BY_PROBLEMS or name in SGD_ALONE:
        text = refused(made)
        assert f"'{name}' needs" in text or "sgd" in text.lower()
    elif name == "fedbn":
        assert "personal_layers: the model has no normalisation layers" in refused(made)
    else:
        drive(api.prepare(api.read(made)), tmp_path)


def test_all_that_does_not_go_together_is_told_at_once():
    drift = {"name": "rotation", "at": 2}
    changes = {"drift": drift, "evaluate": {"gap": True, "rows": 3, "measures": ["distance"]}}
    problem = {"name": "least-squares", "dataset": "linear"}
    given = scenario(problem=problem, algorithms=["fedbuff", "centralised"], **changes)
    found = refused(given)
    assert found.startswith("4 mistakes")
    for text in (
        "evaluate.gap: gap: true needs rows that stay the same in all rounds",
        "evaluate.rows: rows: 3 needs rows that stay the same in all rounds",
        "evaluate.measures.0: 'distance' needs rows that stay the same in all rounds",
        "drift: 'rotation' needs rounds, but 'fedbuff' is asynchronous",
    ):
        assert text in found
