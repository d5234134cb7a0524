"""The drift of layers by hand, and top-5 accuracy of more than 20 classes."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import rayfed
from rayfed import api
from rayfed.measures.evaluation import _in_top
from rayfed.problems.base import Batch
from rayfed.testing.studies import LOCAL, drive, on_network

TARGETS = (0.0, 6.0, 8.0)


@pytest.fixture
def lines(tmp_path):
    """Three clients of one row a = 1, y = 0, 6 or 8: F_i(w, b) = (w + b - y)^2 / 2."""
    path = tmp_path / "rows.csv"
    pd.DataFrame({"client": range(3), "a": 1.0, "y": TARGETS}).to_csv(path, index=False)
    np.save(tmp_path / "first.npy", [3.0, 2.0])
    return {
        "rounds": 1,
        "problem": {
            "name": "least-squares", "dataset": str(path), "init": str(tmp_path / "first.npy"),
        },
        "clients": {},
        "evaluate": {"measures": ["layers"]},
        "executor": "serial",
    }  # fmt: skip


def drifts(result):
    frame = result.rounds.filter(like="layer_drift.")
    return frame.rename(columns=lambda name: name.removeprefix("layer_drift.")).iloc[0]


def test_the_drift_of_each_layer_is_its_distance_from_the_mean_over_its_norm(lines, tmp_path):
    # one step of 1/4 from (3, 2): both numbers move by (y - 5) / 4
    local = {"steps": 1, "batch": "full", "lr": 0.25}
    made = lines | {"algorithms": [{"name": "fedavg", "local": local}]}
    found = drifts(rayfed.run(made, out=tmp_path / "out", page=False))
    moves = np.array([-1.25, 0.25, 0.75])
    assert found["weight"] == pytest.approx(moves.std() / (3 + moves.mean()), rel=1e-12)
    assert found["bias"] == pytest.approx(moves.std() / (2 + moves.mean()), rel=1e-12)


def test_layers_drift_among_as_many_clients_as_a_round_has(lines, tmp_path):
    local = {"steps": 1, "batch": "full", "lr": 0.25}
    made = lines | {"algorithms": [{"name": "fedavg", "local": local}]}
    made["participation"] = {"cohort": 1}
    assert drifts(rayfed.run(made, out=tmp_path / "out", page=False)).tolist() == [0.0, 0.0]


def test_methods_without_local_steps_have_no_drift(lines, tmp_path):
    made = lines | {"algorithms": [{"name": "gradient-descent", "lr": 0.1}]}
    assert drifts(rayfed.run(made, out=tmp_path / "out", page=False)).isna().all()


def test_drift_and_top_5_do_not_depend_on_the_stack_nor_change_the_run(mixed, tmp_path):
    made = mixed(rounds=4, evaluate={"every": 2, "measures": ["layers"]})
    made["problem"] |= {"name": "mlp", "hidden": [4]}
    made["problem"]["dataset"] |= {"classes": 22}
    plain = mixed(rounds=4, evaluate={"every": 2})
    plain["problem"] = made["problem"]
    frames = {}
    for name, scenario, block in (("a", made, 1), ("b", made, 7), ("plain", plain, 7)):
        drive(api.prepare(api.read(scenario)), tmp_path / name, block=block)
        frames[name] = pd.read_parquet(tmp_path / name / "fedavg-seed3" / "rounds.parquet")
    pd.testing.assert_frame_equal(frames["a"], frames["b"], check_exact=True)
    drift = [f"layer_drift.{layer}" for layer in ("hidden1", "output")]
    assert (frames["a"].loc[[0, 2, 4], drift] > 0).all(axis=None)
    pd.testing.assert_frame_equal(frames["a"].drop(columns=drift), frames["plain"])
    assert frames["a"].top5_accuracy.notna().tolist() == [True, False, True, False, True]


class Scored:
    """A problem whose scores of 22 classes are known."""

    task = "multiclass"

    def __init__(self, z):
        self.z = z

    def scores(self, x, X):
        return self.z


def test_of_equal_scores_the_first_classes_are_in_the_top_5():
    z = np.zeros((1, 4, 22))
    z[:, 1, 10:16] = 1.0  # six classes tie for the first places
    z[:, 2] = np.arange(22)
    y = np.array([[4, 15, 17, 21]])
    batch = Batch(np.zeros((1, 4, 1)), y, np.array([[1.0, 1.0, 1.0, 0.0]]), None)
    clients = SimpleNamespace(ids=np.arange(1), problem=Scored(z))
    assert _in_top(clients, np.zeros((1, 1)), batch).tolist() == [2.0]  # rows 0 and 2
    assert _in_top(clients, np.zeros((1, 1)), None).tolist() == [0.0]


def test_layers_of_networks_drift_too_and_parts_of_models_have_no_drift(mixed, tmp_path):
    algorithms = [{"name": name, "local": dict(LOCAL)} for name in ("fedavg", "fedrep")]
    made = mixed(
        rounds=1, evaluate={"measures": ["heterogeneity", "layers"]}, algorithms=algorithms
    )
    rows = rayfed.run(
        on_network(made) | {"executor": "serial"}, out=tmp_path / "out", page=False
    ).rounds
    first = rows[rows["round"] == 0].set_index("label")
    drift = first.filter(like="layer_drift.")
    assert list(drift) == ["layer_drift.hidden", "layer_drift.head"]
    assert (drift.loc["fedavg"] > 0).all()
    assert drift.loc["fedrep"].isna().all()
    assert np.isnan(first.client_drift["fedrep"])
