"""The virtual clock: what work takes, who is late, who is dropped, and when a round ends."""

import numpy as np
import pytest

from rayfed import api
from rayfed.engine.budgets import Budgets
from rayfed.engine.clock import Clock, Timing, Traffic, settle
from rayfed.engine.state import DROPPED, LATE, USED, RoundStats
from rayfed.messages import Ask

INF = float("inf")


def settled(end, gone, first=None, deadline_s=None, start=10.0):
    nothing = np.zeros(len(end))
    timing = Timing(start, nothing.astype(int), nothing, np.array(end), np.array(gone))
    ids = np.arange(len(end))
    status, close = settle(ids, timing, start, first=first, deadline_s=deadline_s)
    return status.tolist(), close


def test_without_deadline_the_server_waits_for_all():
    assert settled([12.0, 30.0], [INF, INF]) == ([USED, USED], 30.0)


def test_who_goes_away_in_the_middle_is_dropped_and_noticed_then():
    assert settled([12.0, 30.0], [INF, 20.0]) == ([USED, DROPPED], 20.0)


def test_who_leaves_at_the_very_end_of_the_work_is_used():
    assert settled([12.0, 30.0], [12.0, 30.0]) == ([USED, USED], 30.0)


def test_past_the_deadline_is_late_and_the_round_ends_there():
    assert settled([12.0, 30.0], [INF, INF], deadline_s=15.0) == ([USED, LATE], 15.0)


def test_who_leaves_after_the_deadline_is_late_not_dropped():
    assert settled([12.0, 30.0], [INF, 20.0], deadline_s=15.0) == ([USED, LATE], 15.0)


def test_an_over_selected_cohort_takes_the_first_and_ties_go_to_the_lower_id():
    status, close = settled([14.0, 12.0, 14.0, 11.0], [INF] * 4, first=3)
    assert (status, close) == ([USED, USED, LATE, USED], 14.0)


def test_nobody_there_ends_at_once():
    assert settled([], []) == ([], 10.0)


def clock_of(scenario):
    (run,) = api.prepare(api.read(scenario)).runs
    return Clock.of(run, Budgets.of(run))


def test_nobody_looked_whether_the_visited_one_is_there(mixed):
    away = {"name": "cyclic", "groups": 2, "period_s": 50.0}  # client 0 in [0, 50), 1 in [50, 100)
    made = mixed(clients={"count": 2, "availability": away}, participation={"cohort": 1})
    clock, at_10, both = clock_of(made), RoundStats(1, 10.0, 10.0), np.arange(2)
    gone = {}
    for whom in (None, "visited"):
        ask = Ask("work", send={}, up={}, cost=1.0, clients=whom)
        gone[whom] = clock.timing(ask, Traffic(0, 0), at_10, both).gone_s.tolist()
    assert gone["visited"] == [50, 10]
    assert gone[None][0] == 50


class TestSinglePieces:
    """What a loop of arrivals asks for: one client's pace, duration and leaving at a time."""

    @pytest.fixture
    def clock(self, mixed):
        clients = {
            "count": 3,
            "delay": {"name": "lognormal", "mean_s": 2.0, "sigma": 0.5},
            "network": {"down_mbps": 8.0, "up_mbps": 4.0},  # a megabyte in 1 s and 2 s
            "availability": {"name": "cyclic", "groups": 3, "period_s": 50.0},
        }
        return clock_of(mixed(clients=clients, participation={"cohort": 1}))

    def test_a_draw_for_each_client_is_that_of_the_client_alone(self, clock):
        ids, draws = np.arange(3), np.array([4, 1, 9])
        together = clock.pace(ids, draws)
        alone = [clock.pace(np.array([i]), int(d))[0] for i, d in zip(ids, draws, strict=True)]
        assert together.tolist() == alone
        assert together.tolist() != clock.pace(ids, 4).tolist()

    def test_work_is_download_computing_and_upload(self, clock):
        ask = Ask("work", send={}, up={}, cost=3.0)
        ids, pace, none = np.array([1]), np.array([0.5]), np.zeros(1, dtype=int)
        work = clock.duration(ask, Traffic(2_000_000, 1_000_000), ids, pace, none)
        parts = (work.down_s, work.compute_s, work.up_s)
        assert [seconds.tolist() for seconds in parts] == [[2.0], [1.5], [2.0]]
        begun = work.timing(np.array([7.0]), np.array([INF]))
        assert begun.end_s.tolist() == [12.5]

    def test_who_is_not_there_leaves_at_once(self, clock):
        ids = np.arange(3)  # one after another for 50 s
        assert clock.leaving(ids, 60.0, 1).tolist() == [60.0, 100.0, 60.0]
