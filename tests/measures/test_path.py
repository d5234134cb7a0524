"""The path of a model of two numbers, the ends of local work and the map of F, by hand."""

import numpy as np
import pandas as pd
import pytest

import rayfed
from rayfed.core.errors import ScenarioError
from rayfed.measures.path import MOST, SIDE
from rayfed.report.read.results import Results
from rayfed.testing.studies import mixed

TARGETS = np.array([0.0, 6.0, 8.0])


@pytest.fixture
def lines(tmp_path):
    """Three clients of one row a = 1, y = 0, 6 or 8: F_i(w, b) = (w + b - y)^2 / 2."""
    path = tmp_path / "rows.csv"
    pd.DataFrame({"client": range(3), "a": 1.0, "y": TARGETS}).to_csv(path, index=False)
    np.save(tmp_path / "first.npy", [3.0, 2.0])
    problem = {"name": "least-squares", "dataset": str(path), "init": str(tmp_path / "first.npy")}
    local = {"steps": 1, "batch": "full", "lr": 0.25}
    return {
        "rounds": 1, "dtype": "float64", "problem": problem, "clients": {}, "executor": "serial",
        "evaluate": {"measures": ["path"]}, "algorithms": [{"name": "fedavg", "local": local}],
    }  # fmt: skip


def pulls(folder):
    (run,) = Results.read(folder).runs_found
    return run.pulls


def test_server_and_clients_go_where_one_step_takes_them(lines, tmp_path):
    result = rayfed.run(lines, out=tmp_path / "out", page=False)
    # one step of 1/4 from (3, 2): both numbers move by (y - 5) / 4
    moves = (TARGETS - 5) / 4
    found = pulls(tmp_path / "out")
    assert found.rounds.tolist() == [0, 1]
    assert found.clients.tolist() == [0, 1, 2]
    assert found.starts[0].tolist() == [3, 2]
    assert found.ends[0] == pytest.approx(np.stack([3 + moves, 2 + moves], axis=1))
    rows = result.rounds[["model_0", "model_1"]].to_numpy()
    assert rows == pytest.approx(np.array([[3, 2], [3 + moves.mean(), 2 + moves.mean()]]))


def test_the_map_is_f_around_the_paths(lines, tmp_path):
    rayfed.run(lines, out=tmp_path / "out", page=False)
    found = pulls(tmp_path / "out")
    assert found.map.shape == (SIDE, SIDE)
    w, b = (np.linspace(*found.box[:, k], SIDE) for k in (0, 1))
    sums = w[None, :, None] + b[:, None, None]  # b goes down, w across
    assert found.map == pytest.approx(((sums - TARGETS) ** 2 / 2).mean(axis=2))
    assert found.lowest.sum() == pytest.approx(TARGETS.mean(), abs=np.ptp(found.box) / SIDE)
    places = np.concatenate([found.starts, found.ends.reshape(-1, 2)])
    assert (places >= found.box[0]).all()
    assert (places <= found.box[1]).all()


def test_of_some_clients_the_first_are_kept(lines, tmp_path):
    lines["evaluate"] = {"measures": [{"name": "path", "clients": 2}]}
    rayfed.run(lines, out=tmp_path / "out", page=False)
    assert pulls(tmp_path / "out").clients.tolist() == [0, 1]


def test_long_runs_keep_every_second_evaluation(lines, tmp_path):
    rayfed.run(lines | {"rounds": MOST + 1}, out=tmp_path / "out", page=False)
    assert pulls(tmp_path / "out").rounds.tolist() == list(range(0, MOST + 1, 2))


def test_larger_models_have_a_path_and_no_map(tmp_path):
    scenario = mixed(evaluate={"measures": ["path"]}, rounds=2)
    result = rayfed.run(scenario, out=tmp_path / "out", page=False)
    assert result.rounds["model_1"].notna().all()
    assert pulls(tmp_path / "out").map.size == 0
    with pytest.raises(ScenarioError, match="has no map of F"):
        result.figure("paths", name="fedavg", seed=3)
