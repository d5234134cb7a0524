"""The virtual clock: who is late, who is dropped, and when a round ends."""

import numpy as np
import pytest

from rayfed import api
from rayfed.engine.budgets import Budgets
from rayfed.engine.clock import Clock
from rayfed.engine.state import RoundStats
from rayfed.messages import Ask


@pytest.fixture
def clock(mixed):
    def make(deadline_s=None, cohort=3, over_select=1.0):
        part = {"cohort": cohort, "over_select": over_select, "deadline_s": deadline_s}
        (run,) = api.prepare(api.read(mixed(participation=part))).runs
        return Clock(run, Budgets(run))

    return make


def arrivals(clock, end, gone, limit=None, start=10.0):
    end, gone = np.array(end), np.array(gone)
    tally = RoundStats(start, start)
    status, close = clock.arrivals(
        tally, np.arange(len(end)), {"end_s": end, "gone_s": gone}, limit
    )
    return status.tolist(), close


INF = float("inf")


def test_without_deadline_the_server_waits_for_all(clock):
    assert arrivals(clock(), [12.0, 30.0], [INF, INF]) == ([0, 0], 30.0)


def test_who_goes_away_in_the_middle_is_dropped_and_noticed_then(clock):
    assert arrivals(clock(), [12.0, 30.0], [INF, 20.0]) == ([0, 2], 20.0)


def test_past_the_deadline_is_late_and_the_round_ends_there(clock):
    assert arrivals(clock(deadline_s=5.0), [12.0, 30.0], [INF, INF]) == ([0, 1], 15.0)


def test_who_leaves_after_the_deadline_is_late_not_dropped(clock):
    assert arrivals(clock(deadline_s=5.0), [12.0, 30.0], [INF, 20.0]) == ([0, 1], 15.0)


def test_an_over_selected_cohort_takes_the_first_and_ties_go_to_the_lower_id(clock):
    status, close = arrivals(clock(), [14.0, 12.0, 14.0, 11.0], [INF] * 4, limit=3)
    assert (status, close) == ([0, 0, 1, 0], 14.0)


def test_nobody_there_ends_at_once(clock):
    assert arrivals(clock(), [], []) == ([], 10.0)


def test_nobody_looked_whether_the_visited_one_is_there(mixed):
    away = {"name": "cyclic", "groups": 2, "period_s": 50.0}  # client 0 in [0, 50), 1 in [50, 100)
    made = mixed(clients={"count": 2, "availability": away}, participation={"cohort": 1})
    (run,) = api.prepare(api.read(made)).runs
    clock, at_10, both = Clock(run, Budgets(run)), RoundStats(10.0, 10.0), np.arange(2)
    gone = {}
    for whom in (None, "visited"):
        ask = Ask("work", send={}, up={}, cost=1.0, clients=whom)
        gone[whom] = clock.timing(ask, "algorithm", 1, at_10, both)["gone_s"].tolist()
    assert gone["visited"] == [50, 10]
    assert gone[None][0] == 50
