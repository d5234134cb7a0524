import time

import numpy as np
import pytest

from rayfed.population import Population
from rayfed.population.availability import Always, Cyclic, Diurnal, Markov, Outages
from rayfed.runs.files.away import MOST_INTERVALS, MOST_STEPS, away


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
    monkeypatch.setattr("rayfed.runs.files.away.MOST_INTERVALS", 2000)
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
