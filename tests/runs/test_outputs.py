"""What a run says at its end of the rounds that it had."""

import math
import time

import numpy as np
import pandas as pd
import pytest

from rayfed import api
from rayfed.executors.serial import SerialExecutor
from rayfed.population import Always, Cyclic, Diurnal, Markov, Outages, Population
from rayfed.runs import outputs
from rayfed.runs.driver import Driver
from rayfed.runs.files.stops import STOPPED
from rayfed.runs.outputs import GRAPH, MOST_INTERVALS, MOST_STEPS, WALK, WalkPath, away
from rayfed.testing.toy import tiny_run, toy_scenario
from rayfed.topology import (
    Complete,
    Directed,
    Geometric,
    Graphs,
    Metropolis,
    Random,
    Ring,
    Star,
    UniformWalk,
)
from rayfed.topology.connect import components_of
from rayfed.topology.mixing import mixing


def said(tmp_path, *algorithms, **changes):
    return tiny_run(tmp_path / "out", *algorithms, **changes).warnings


def test_rounds_without_replies_are_a_warning(tmp_path):
    """A step takes 1 s: replies of round 1 come at 3 s, and the deadline is at 2 s."""
    local = {"name": "fedavg", "local": {"steps": 3, "batch": 1}}
    clients = {"count": 3, "delay": {"name": "constant", "mean_s": 1.0}}
    (line,) = said(tmp_path, local, clients=clients, rounds=3, participation={"deadline_s": 2.0})
    assert line.startswith("3 of 3 rounds used no reply: ")
    assert "participation.deadline_s" in line
    assert said(tmp_path, local, clients=clients, rounds=3, participation={"deadline_s": 4.0}) == ()


@pytest.mark.parametrize(
    ("empty", "rounds", "warned"),
    [(1, 9, False), (2, 9, True), (2, 20, False), (3, 20, True), (1, 1, True), (0, 0, False)],
)
def test_a_tenth_of_the_rounds_may_be_empty(empty, rounds, warned):
    lines = outputs._empty(np.repeat([0, 2], [empty, rounds - empty]))
    assert lines == ([f"{empty} of {rounds} rounds used no reply: {outputs.WHY_EMPTY}"] * warned)


@pytest.mark.parametrize(("loss", "warned"), [(0.8, False), (0.9, True), (np.nan, False)])
def test_a_loss_worse_than_that_of_guessing_is_a_warning(loss, warned):
    """Of two classes it is 0.693; a last row without an evaluation counts by the one before."""
    study = toy_scenario("fedavg", problem={"name": "logistic-regression", "dataset": "mushroom"})
    (run,) = api.prepare(api.read(study)).runs
    lines = outputs._guessing(run, np.array([0.5, loss, np.nan]))
    assert bool(lines) == warned
    if warned:
        assert lines[0].startswith(
            "the loss ended at 0.9, that of guessing among 2 classes is 0.69"
        )
    (other,) = api.prepare(api.read(toy_scenario("fedavg"))).runs  # least squares
    assert outputs._guessing(other, np.array([16.0])) == []


def test_features_that_are_large_are_said_before_the_run_and_after_it(tmp_path):
    rows = np.random.default_rng(0).normal(size=(60, 2)) * [1.0, 300.0]
    table = pd.DataFrame(rows, columns=["age", "income"]).assign(y=(rows[:, 0] > 0).astype(int))
    table.to_csv(tmp_path / "rows.csv", index=False)
    problem = {"name": "logistic-regression", "dataset": str(tmp_path / "rows.csv"), "target": "y"}
    local = {"steps": 5, "batch": 4, "lr": 1.0}
    study = {"problem": problem, "partition": {"name": "iid"}}
    scale, guess = said(tmp_path, {"name": "fedavg", "local": local}, **study)
    assert scale.startswith("1 of 2 features are larger than 20, feature 'income' most (")
    assert guess.startswith("the loss ended at ")


def intervals(population, times, ids=(0, 1)):
    found = away(population, np.array(ids), np.array(times))
    return list(zip(*(found[k].tolist() for k in ("client", "start_s", "end_s")), strict=True))


def test_nobody_is_away_who_is_always_there():
    assert intervals(Population(2, 0, availability=Always()), [0.0, 10.0]) == []


def test_turns_by_round_are_away_between_them():
    population = Population(2, 0, availability=Cyclic(groups=2, rounds=1))
    # rounds 1 and 3 belong to client 0, round 2 to client 1
    assert intervals(population, [0.0, 5.0, 8.0, 10.0]) == [
        (0, 5.0, 8.0), (1, 0.0, 5.0), (1, 8.0, 10.0),
    ]  # fmt: skip


def test_turns_by_time_change_in_the_middle_of_a_round():
    population = Population(2, 0, availability=Cyclic(groups=2, period_s=4.0))
    assert intervals(population, [0.0, 9.0, 10.0]) == [
        (0, 4.0, 8.0), (1, 0.0, 4.0), (1, 8.0, 10.0),
    ]  # fmt: skip


def test_nights_in_two_time_zones():
    population = Population(2, 0, availability=Diurnal(zones=(0.0, 9.0), from_h=22, to_h=6))
    # 22:00 to 6:00 at UTC+9 is 13:00 to 21:00 UTC; a round of 36 hours begins at midnight
    away_h = [(i, a / 3600, b / 3600) for i, a, b in intervals(population, [0.0, 36 * 3600.0])]
    assert away_h == [(0, 6, 22), (0, 30, 36), (1, 0, 13), (1, 21, 36)]


@pytest.mark.parametrize(
    "availability", [Markov(mean_on_s=9.0, mean_off_s=30.0), Diurnal(jitter_h=2.0), Outages()]
)
def test_going_from_change_to_change_finds_what_asking_all_at_each_finds(availability, monkeypatch):
    times = np.linspace(0.0, 300.0 if availability.name == "markov" else 4e5, 5)
    ids = np.array([3, 8, 9, 17])
    population = Population(20, 0, availability=availability)
    quick = away(population, ids, times)
    monkeypatch.setattr(type(availability), "own_times", False)
    slow = away(population, ids, times)
    assert {k: v.tolist() for k, v in quick.items()} == {k: v.tolist() for k, v in slow.items()}
    assert len(quick["client"]) > 3


def test_random_changes_of_many_clients_are_recorded_up_to_a_bound(monkeypatch):
    monkeypatch.setattr("rayfed.runs.outputs.MOST_INTERVALS", 2000)
    population = Population(100, 0, availability=Markov(mean_on_s=1.0, mean_off_s=1.0))
    found = away(population, np.arange(100), np.array([0.0, 1e5]))
    assert 1000 < len(found["client"]) <= 2200
    assert (found["start_s"] < found["end_s"]).all()


def test_nobody_asked_about():
    assert intervals(Population(2, 0), [0.0, 1.0], ids=()) == []


def test_turns_of_a_millisecond_are_recorded_up_to_a_bound():
    population = Population(1000, 0, availability=Cyclic(groups=2, period_s=0.001))
    begun = time.monotonic()
    found = away(population, np.arange(1000), np.linspace(0.0, 1e5, 200))
    assert time.monotonic() - begun < 20  # it was minutes, and gigabytes
    assert MOST_INTERVALS <= len(found["client"]) <= MOST_INTERVALS + 1000
    # Every group is away for half of the time that was looked at, and nobody beyond it.
    end = found["end_s"].max()
    assert end < 1.0
    seconds = np.bincount(found["client"], found["end_s"] - found["start_s"])
    np.testing.assert_allclose(seconds, end / 2, atol=0.001)


def test_many_changes_of_few_clients_are_recorded_up_to_a_bound():
    population = Population(2, 0, availability=Cyclic(groups=2, period_s=0.001))
    found = away(population, np.arange(2), np.array([0.0, 1e5]))
    assert found["end_s"].max() <= MOST_STEPS * 0.001


def way(positions, asked=()):
    positions = np.array(positions)
    return WalkPath(positions, np.zeros(len(positions)), np.array(asked, dtype=int))


def links_of(found, graph):
    mine = slice(*found["starts"][graph : graph + 2])
    return found["links"][mine]


def test_a_ring_is_recorded_once_with_its_second_eigenvalue():
    found = outputs.walked(Graphs(Ring(), 5, seed=0), Metropolis(), way([0, 1, 1, 2]))
    assert found["round"].tolist() == [1, 2, 3, 4]
    assert found["graph"].tolist() == [0, 0, 0, 0]
    assert links_of(found, 0).tolist() == [[0, 1], [0, 4], [1, 2], [2, 3], [3, 4]]
    # moves of 1/2 to either side: eigenvalues cos(2 pi k / 5)
    assert found["lambda_2"] == pytest.approx([-math.cos(4 * math.pi / 5)])
    assert found["law"] == pytest.approx(np.full((1, 5), 0.2))
    assert found["places"].size == 0


def test_the_law_of_uniform_moves_on_a_star_is_its_degrees():
    found = outputs.walked(Graphs(Star(), 5, seed=0), UniformWalk(lazy=0.5), way([0]))
    assert found["law"][0] == pytest.approx([1 / 2, 1 / 8, 1 / 8, 1 / 8, 1 / 8])


def test_what_a_solver_may_round_otherwise_is_not_recorded():
    found = outputs.walked(Graphs(Complete(), 7, seed=0), UniformWalk(lazy=0.5), way([0]))
    assert found["law"].tolist() == [[0.142857142857] * 7]
    assert found["lambda_2"].tolist() == [0.416666666667]  # 1/2 - 1/2 * 1/6


def test_long_walks_are_thinned_evenly(monkeypatch):
    monkeypatch.setattr(outputs, "MOST_ROUNDS", 3)
    graphs = Graphs(Random(p=0.5, every=2, disconnected="redraw"), 8, seed=0)
    found = outputs.walked(graphs, Metropolis(lazy=0.1), way([0] * 9))
    assert found["round"].tolist() == [1, 5, 9]
    assert found["epoch"].tolist() == [0, 2, 4]
    assert found["graph"].tolist() == [0, 1, 2]
    for place, epoch in enumerate(found["epoch"]):
        np.testing.assert_array_equal(links_of(found, place), graphs.of(int(epoch)).links)


def test_of_many_clients_the_most_visited_are_told_and_the_law_of_all(monkeypatch):
    monkeypatch.setattr(outputs, "MOST_CLIENTS", 3)
    # 5 and 6 are visited, 4 is asked more often than 7
    found = outputs.walked(
        Graphs(Ring(), 9, seed=0), Metropolis(), way([5, 6], [4, 4, 4, 7, 7, 5, 6])
    )
    assert found["clients"].tolist() == [4, 5, 6]
    assert links_of(found, 0).tolist() == [[4, 5], [5, 6]]
    assert found["law"].shape == (1, 9)


def test_of_very_many_clients_only_the_way_is_told(monkeypatch):
    monkeypatch.setattr(outputs, "MEASURED", 8)
    found = outputs.walked(Graphs(Ring(), 9, seed=0), Metropolis(), way([5, 6]))
    assert found["law"].shape == (1, 0)
    assert np.isnan(found["lambda_2"]).all()


def test_a_graph_in_parts_has_no_single_law():
    torn = Random(p=0.02, disconnected="allow")
    found = outputs.walked(Graphs(torn, 20, seed=0), Metropolis(lazy=0.5), way([0]))
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
                    {"name": "rwsadmm", "local": {"steps": 2}, "participation": {"select": walk}},
                    {"name": "fedavg", "local": local},
                ],
            )
        )
    )


def drive(plan, out, index=0):
    run = plan.runs[index]
    return Driver(run, out, SerialExecutor(plan.tables))


def arrays(plan, out, file=WALK):
    with np.load(out / plan.runs[0].folder / file, allow_pickle=False) as held:
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


def test_graphs_of_gossip_that_were_repaired_are_marked(mixed, tmp_path):
    moving = {"name": "geometric", "range_m": 400, "every_s": 20}
    clients = {"count": 13, "delay": {"name": "constant", "mean_s": 5.0}}
    local = {"steps": 2, "batch": 4, "lr": 0.1}
    gossip = [{"name": "d-psgd", "local": local}]
    scenario = mixed(topology=moving, clients=clients, participation={}, algorithms=gossip)
    plan = api.prepare(api.read(scenario))
    drive(plan, tmp_path).execute()
    found = arrays(plan, tmp_path, GRAPH)
    graphs = Graphs(Geometric(range_m=400, every_s=20, disconnected="allow"), 13, plan.runs[0].seed)
    apart = [components_of(graphs.of(int(epoch))).count > 1 for epoch in found["epoch"]]
    assert 0 < sum(apart) < len(apart)
    assert found["repaired"].tolist() == apart


@pytest.mark.guard
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

    monkeypatch.setattr(outputs, "walked", broken)
    assert drive(plan, tmp_path).execute() == "finished"
    log = (tmp_path / plan.runs[0].folder / "log.txt").read_text()
    assert "the graphs could not be recorded: ValueError: no such graph" in log


def test_mixing_by_push_is_recorded_as_the_chain_that_it_reverses():
    mass, graph = np.array([2.0, 3, 4, 5]), Directed(4, [[0, 1], [1, 2], [2, 0], [2, 3], [3, 0]])
    found = outputs.Mixing(mass, "push").matrix(graph).toarray()
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-15)
    w = mixing(graph, mass, "push").toarray()
    np.testing.assert_allclose(np.poly(found), np.poly(w), atol=1e-14)
