"""What is recorded of a walk: the graphs, what the walk comes to on them, and who took part."""

import math

import numpy as np
import pandas as pd
import pytest

from rayfed import api
from rayfed.executors.serial import SerialExecutor
from rayfed.runs.driver import Driver
from rayfed.runs.files import walked
from rayfed.runs.files.stops import STOPPED
from rayfed.runs.files.walked import WALK, WalkPath
from rayfed.topology import Graphs
from rayfed.topology.connect import components_of
from rayfed.topology.geometric import Geometric
from rayfed.topology.rounds import Complete, Random, Ring, Star
from rayfed.topology.walks import Metropolis, Uniform


def way(positions, asked=()):
    positions = np.array(positions)
    return WalkPath(positions, np.zeros(len(positions)), np.array(asked, dtype=int))


def links_of(found, graph):
    mine = slice(*found["starts"][graph : graph + 2])
    return found["links"][mine]


def test_a_ring_is_recorded_once_with_its_second_eigenvalue():
    found = walked.walked(Graphs(Ring(), 5, seed=0), Metropolis(), way([0, 1, 1, 2]))
    assert found["round"].tolist() == [1, 2, 3, 4]
    assert found["graph"].tolist() == [0, 0, 0, 0]
    assert links_of(found, 0).tolist() == [[0, 1], [0, 4], [1, 2], [2, 3], [3, 4]]
    # moves of 1/2 to either side: eigenvalues cos(2 pi k / 5)
    assert found["lambda_2"] == pytest.approx([-math.cos(4 * math.pi / 5)])
    assert found["law"] == pytest.approx(np.full((1, 5), 0.2))
    assert found["places"].size == 0


def test_the_law_of_uniform_moves_on_a_star_is_its_degrees():
    found = walked.walked(Graphs(Star(), 5, seed=0), Uniform(lazy=0.5), way([0]))
    assert found["law"][0] == pytest.approx([1 / 2, 1 / 8, 1 / 8, 1 / 8, 1 / 8])


def test_what_a_solver_may_round_otherwise_is_not_recorded():
    found = walked.walked(Graphs(Complete(), 7, seed=0), Uniform(lazy=0.5), way([0]))
    assert found["law"].tolist() == [[0.142857142857] * 7]
    assert found["lambda_2"].tolist() == [0.416666666667]  # 1/2 - 1/2 * 1/6


def test_long_walks_are_thinned_evenly(monkeypatch):
    monkeypatch.setattr(walked, "MOST_ROUNDS", 3)
    graphs = Graphs(Random(p=0.5, every=2, disconnected="redraw"), 8, seed=0)
    found = walked.walked(graphs, Metropolis(lazy=0.1), way([0] * 9))
    assert found["round"].tolist() == [1, 5, 9]
    assert found["epoch"].tolist() == [0, 2, 4]
    assert found["graph"].tolist() == [0, 1, 2]
    for place, epoch in enumerate(found["epoch"]):
        np.testing.assert_array_equal(links_of(found, place), graphs.of(int(epoch)).links)


def test_of_many_clients_the_most_visited_are_told_and_the_law_of_all(monkeypatch):
    monkeypatch.setattr(walked, "MOST_CLIENTS", 3)
    # 5 and 6 are visited, 4 is asked more often than 7
    found = walked.walked(
        Graphs(Ring(), 9, seed=0), Metropolis(), way([5, 6], [4, 4, 4, 7, 7, 5, 6])
    )
    assert found["clients"].tolist() == [4, 5, 6]
    assert links_of(found, 0).tolist() == [[4, 5], [5, 6]]
    assert found["law"].shape == (1, 9)


def test_of_very_many_clients_only_the_way_is_told(monkeypatch):
    monkeypatch.setattr(walked, "MEASURED", 8)
    found = walked.walked(Graphs(Ring(), 9, seed=0), Metropolis(), way([5, 6]))
    assert found["law"].shape == (1, 0)
    assert np.isnan(found["lambda_2"]).all()


def test_a_graph_in_parts_has_no_single_law():
    torn = Random(p=0.02, disconnected="allow")
    found = walked.walked(Graphs(torn, 20, seed=0), Metropolis(lazy=0.5), way([0]))
    assert np.isnan(found["law"]).all()
    assert found["lambda_2"].tolist() == [1.0]


@pytest.fixture
def plan(mixed):
    local = {"steps": 2, "batch": 4, "lr": 0.1}
    walk = {"name": "walk", "rule": {"name": "metropolis", "speed_m_s": 5}}
    return api.prepare(
        api.read(
            mixed(
                topology={"name": "geometric", "range_m": 400, "every_s": 20},
                clients={"count": 13, "delay": {"name": "constant", "mean_s": 5.0}},
                participation={"cohort": 4},
                algorithms=[
                    {"name": "rwsadmm", "local": {"steps": 2}, "select": walk},
                    {"name": "fedavg", "local": local},
                ],
            )
        )
    )


def drive(plan, out, index=0):
    run = plan.runs[index]
    return Driver(run, out, SerialExecutor(plan.tables))


def arrays(plan, out):
    with np.load(out / plan.runs[0].folder / WALK, allow_pickle=False) as held:
        return {name: held[name] for name in held.files}


def test_the_links_of_a_round_are_those_along_which_its_cohort_was_asked(plan, tmp_path):
    drive(plan, tmp_path).execute()
    found, folder = arrays(plan, tmp_path), tmp_path / plan.runs[0].folder
    events = pd.read_parquet(folder / "events.parquet")
    rounds = pd.read_parquet(folder / "rounds.parquet").set_index("round")
    assert len(found["epoch"]) > 5  # clients move, and so does the server
    assert found["places"].shape == (len(found["epoch"]), 13, 2)
    for number, graph in zip(found["round"], found["graph"], strict=True):
        place, links = rounds.position[number], links_of(found, graph)
        linked = links[(links == place).any(axis=1)]
        cohort = events.client[events["round"] == number]
        assert sorted({place, *linked.ravel().tolist()}) == cohort.tolist()


def test_rounds_on_graphs_that_were_repaired_are_counted_in_the_log(plan, tmp_path):
    drive(plan, tmp_path).execute()
    run, folder = plan.runs[0], tmp_path / plan.runs[0].folder
    rounds = pd.read_parquet(folder / "rounds.parquet").iloc[1:]
    epochs = pd.read_parquet(folder / "events.parquet").groupby("round").start_s.first() // 20
    graphs = Graphs(Geometric(range_m=400, every_s=20, disconnected="allow"), 13, run.seed)
    apart = [components_of(graphs.of(int(epoch))).count > 1 for epoch in epochs]
    assert 0 < sum(apart) < len(rounds)
    assert (rounds.connected == 0).tolist() == (rounds.repaired == 1).tolist() == apart
    (line,) = (folder / "log.txt").read_text().splitlines()
    text = f"the graph was not connected in {sum(apart)} of {len(rounds)} rounds; links were added"
    assert line.endswith(f"{text} to connect it in {sum(apart)}")


def test_a_run_that_goes_on_records_the_same_walk(plan, tmp_path):
    drive(plan, tmp_path / "calm").execute()
    begun = drive(plan, tmp_path / "stopped")
    assert begun.execute(report=lambda progress: begun.stop()) == STOPPED
    drive(plan, tmp_path / "stopped").execute(resume=True)
    calm, stopped = (arrays(plan, tmp_path / name) for name in ("calm", "stopped"))
    assert {k: v.tobytes() for k, v in calm.items()} == {k: v.tobytes() for k, v in stopped.items()}


def test_who_does_not_walk_has_no_walk(plan, tmp_path):
    assert drive(plan, tmp_path, 1).execute() == "finished"
    assert not (tmp_path / plan.runs[1].folder / WALK).exists()


def test_a_walk_that_cannot_be_recorded_is_a_line_in_the_log(plan, tmp_path, monkeypatch):
    def broken(*_):
        raise ValueError("no such graph")

    monkeypatch.setattr(walked, "walked", broken)
    assert drive(plan, tmp_path).execute() == "finished"
    log = (tmp_path / plan.runs[0].folder / "log.txt").read_text()
    assert "the walk could not be recorded: ValueError: no such graph" in log
