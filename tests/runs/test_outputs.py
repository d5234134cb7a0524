"""What a run says at its end of the rounds that it had."""

import time

import numpy as np
import pandas as pd
import pytest

from rayfed import api
from rayfed.availability import Cyclic, Diurnal, Markov, Outages
from rayfed.population import Population
from rayfed.population.availability import Always
from rayfed.runs import outputs
from rayfed.runs.outputs import MOST_INTERVALS, MOST_STEPS, away
from rayfed.testing.toy import tiny_run, toy_scenario


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
