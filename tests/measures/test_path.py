"""The path of a model of two numbers, the ends of local work and the map of F, by hand."""

import numpy as np
import pandas as pd
import pytest

import rayfed
from rayfed.core.errors import ScenarioError
from rayfed.measures.path import MOST, SIDE
from rayfed.report.read.results import Results
from rayfed.testing.studies import mixed

ROWS = np.array([0.0, 6.0, 7.0, 9.0])
TARGETS = np.array([0.0, 6.0, 8.0])


@pytest.fixture
def lines(tmp_path):
    """Clients of rows a = 1, y = 0, 6, and 7 and 9: F is the mean of (w + b - y)^2 / 2."""
    path = tmp_path / "rows.csv"
    pd.DataFrame({"client": [0, 1, 2, 2], "a": 1.0, "y": ROWS}).to_csv(path, index=False)
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
    mean = (ROWS.mean() - 5) / 4  # by rows, of which the last client has two
    assert rows == pytest.approx(np.array([[3, 2], [3 + mean, 2 + mean]]))


def test_ends_are_those_of_each_clients_own_steps(lines, tmp_path):
    """In batches of one the last client takes two steps: a quarter of 8 - 5, then of 8 - 6.5."""
    same = pd.DataFrame({"client": [0, 1, 2, 2], "a": 1.0, "y": [0.0, 6.0, 8.0, 8.0]})
    same.to_csv(tmp_path / "rows.csv", index=False)
    local = {"epochs": 1, "batch": 1, "lr": 0.25}
    lines["algorithms"] = [{"name": "fedavg", "local": local}]
    rayfed.run(lines, out=tmp_path / "out", page=False)
    moves = np.array([-1.25, 0.25, 0.75 + 0.375])
    assert pulls(tmp_path / "out").ends[0] == pytest.approx(
        np.stack([3 + moves, 2 + moves], axis=1)
    )


@pytest.mark.parametrize(("first", "rounds"), [([3, 2], 1), ([30, 20], 9), ([-30, -20], 9)])
def test_the_map_is_f_around_the_paths(lines, tmp_path, first, rounds):
    """From far away the path leaves the first map, to the lower or to the upper end."""
    np.save(tmp_path / "first.npy", np.array(first, dtype=float))
    rayfed.run(lines | {"rounds": rounds}, out=tmp_path / "out", page=False)
    found = pulls(tmp_path / "out")
    assert found.map.shape == (SIDE, SIDE)
    w, b = (np.linspace(*found.box[:, k], SIDE) for k in (0, 1))
    sums = w[None, :, None] + b[:, None, None]  # b goes down, w across
    assert found.map == pytest.approx(((sums - ROWS) ** 2 / 2).mean(axis=2))
    assert found.lowest.sum() == pytest.approx(ROWS.mean(), abs=np.ptp(found.box) / SIDE)
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
