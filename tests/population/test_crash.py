"""Crashes by hand, by statistics, and in runs with rounds and without."""

import numpy as np
import pytest
from scipy.stats import binomtest, chisquare

import rayfed
from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.population import Crash, Group, Population
from rayfed.population.crash import TRIES, Crashes

NEVER = np.inf


def test_crashes_by_hand():
    """Client 0 does not crash; 1 does twice; 2 gives up at once; 3 crashes always."""
    u = np.full((4, 2 * TRIES), 0.8)
    u[1, :4] = 0.1, 0.25, 0.4, 0.5  # crashes after a quarter, then after a half
    u[2, :4] = 0.1, 0.75, 0.1, 0.5
    u[3, 0::2], u[3, 1::2] = 0.0, 0.125
    found = Crashes.of(u, np.array([0.5, 0.5, 0.5, 1.0]), np.array([3.0, 3.0, NEVER, 2.0]))
    assert found.spent.tolist() == [0.0, 0.75, 0.75, 2.0]
    assert found.waited_s.tolist() == [0.0, 6.0, 0.0, 30.0]  # nobody waits after the last crash
    assert found.given_up.tolist() == [False, False, True, True]


def test_the_number_of_crashes_is_geometric_and_their_moments_are_uniform():
    ids, crash = np.arange(20_000), Crash(probability=0.4, restart_s=2.0)
    found = Population(20_000, 3, crash=crash).crashes(ids, 5, 0)
    times = found.waited_s / 2
    counts = np.bincount(times.astype(int))[:6]
    shares = 0.6 * 0.4 ** np.arange(6)
    assert chisquare(counts, counts.sum() * shares / shares.sum()).pvalue > 1e-3
    once = found.spent[times == 1]
    assert chisquare(np.histogram(once, 10, (0, 1))[0]).pvalue > 1e-3
    assert not found.given_up.any()


def test_crashes_of_episodes_are_those_of_their_rounds():
    ids, always = np.arange(500), Crash(probability=0.5, restart_s=2.0)
    some = Crash(probability=0.5, restart_s=2.0, start=2, end=3, every=4)
    groups = (Group(ids=tuple(range(250)), crash=some),)
    population = Population(500, 3, crash=always, groups=groups)
    without = Population(500, 3, crash=always)
    for draw in (*range(1, 9), np.arange(500) % 8 + 1):
        found, every = population.crashes(ids, draw, 0), without.crashes(ids, draw, 0)
        crashes = (ids >= 250) | np.isin(np.broadcast_to(draw, 500), [2, 3, 6, 7])
        assert (every.spent > 0).any()
        np.testing.assert_array_equal(found.spent, np.where(crashes, every.spent, 0.0))
        np.testing.assert_array_equal(found.waited_s, np.where(crashes, every.waited_s, 0.0))


def test_groups_crash_as_they_are_told_and_draws_are_pure():
    groups = (Group(count=4000, crash=Crash(probability=0.2)),)
    population, ids = Population(6000, 0, groups=groups), np.arange(6000)
    found = population.crashes(ids, 7, 1)
    member = population.group_of(ids) == 1
    assert not found.given_up[~member].any()
    assert binomtest(int(found.given_up.sum()), 4000, 0.2).pvalue > 1e-3
    some = np.array([4711, 3, 77])
    np.testing.assert_array_equal(population.crashes(some, 7, 1).spent, found.spent[some])
    for draw, ask in ((8, 1), (7, 2)):
        assert (population.crashes(ids, draw, ask).given_up != found.given_up).any()


def by_hand(seed, client, number, p, restart_s):
    """Return the seconds from start to end of work, and whether it is given up.

    The download takes 0.5 s, computing 4 s, the upload 0.5 s.
    """
    u = iter(Key(seed, "crash").uniforms([client], 32, round=number)[0])
    seconds = 0.5
    for _ in range(16):
        crashes, share = next(u) < p, next(u)
        if not crashes:
            return seconds + 4.5, False
        seconds += share * 4
        if restart_s is None:
            break
        seconds += restart_s
    else:
        seconds -= restart_s  # it does not wait for what does not come
    return seconds, True


@pytest.mark.parametrize("name", ["fedavg", "fedasync"])
@pytest.mark.parametrize("restart_s", [None, 3.0])
def test_events_are_the_calculation_by_hand(tmp_path, name, restart_s):
    """In rounds draws go by the round, without by the number of the client's task."""
    made = {
        "name": "crashing",
        "seeds": [4],
        "rounds": 12,
        "problem": {"name": "quadratic", "dataset": {"name": "quadratic", "clients": 7}},
        "clients": {
            "delay": {"name": "constant", "mean_s": 2.0},
            "network": {"latency_s": 0.5},
            "crash": {"probability": 0.4, "restart_s": restart_s},
        },
        "algorithms": [{"name": name, "local": {"steps": 2, "batch": "full", "lr": 1e-3}}],
        "executor": "serial",
    }
    events = rayfed.run(made, out=tmp_path / "out", page=False).events.sort_values(
        ["start_s", "client"]
    )
    events["number"] = events.groupby("client").cumcount() + 1
    done = events[events.status != "unfinished"]
    assert len(done) >= 12
    for event in done.itertuples():
        seconds, given_up = by_hand(4, event.client, event.number, 0.4, restart_s)
        assert event.end_s - event.start_s == pytest.approx(seconds, rel=1e-12)
        assert event.status == ("dropped" if given_up else "used")
    assert (done.status == "dropped").any() == (restart_s is None)
    assert done.compute_s.max() > 4 or restart_s is None


def test_who_always_crashes_is_never_used(tmp_path):
    assert by_hand(0, 0, 1, 1.0, 2.0)[1]
    made = {
        "name": "crashing",
        "rounds": 2,
        "problem": {"name": "quadratic", "dataset": {"name": "quadratic", "clients": 3}},
        "clients": {"delay": "constant", "crash": {"probability": 1.0, "restart_s": 2.0}},
        "algorithms": [{"name": "fedavg", "local": {"steps": 1, "batch": "full"}}],
        "executor": "serial",
    }
    result = rayfed.run(made, out=tmp_path / "out", page=False)
    assert set(result.events.status) == {"dropped"}
    assert result.rounds.loss.nunique() == 1


def test_walks_number_no_tasks_of_clients(mixed):
    crash = {"probability": 0.5, "start": 2}
    made = mixed(clients={"count": 6, "crash": crash}, participation={}, topology="ring")
    made["algorithms"] = [{"name": "multi-walk", "local": {"steps": 2}}]
    with pytest.raises(ScenarioError, match="an episode of crashes needs rounds, or tasks"):
        api.prepare(api.read(made))
