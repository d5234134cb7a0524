"""The virtual clock: what work takes, who is late, who is dropped, and when a round ends."""

import numpy as np
import pytest

from rayfed import api
from rayfed.engine.clock import Clock, StepCounter, Traffic, postponed
from rayfed.engine.tasks import DROPPED, LATE, STATUS, USED, Task, Tasks
from rayfed.engine.timeline import fates, settled
from rayfed.messages import Ask

INF = float("inf")


def works_of(end, gone):
    """Tasks of clients 0, 1, ... that are over as `fates` says."""
    status, over = fates(np.array(end), np.array(gone), np.full(len(end), INF))
    blank = Task(*[0] * len(Task._fields))
    rows = zip(over.tolist(), status.tolist(), strict=True)
    return Tasks.of([blank._replace(client=k, over_s=o, status=w) for k, (o, w) in enumerate(rows)])


def ends(end, gone, first=None, deadline_s=INF, start=10.0):
    status, close = settled(works_of(end, gone), start, first, deadline_s)
    return status.tolist(), close


def test_without_deadline_the_server_waits_for_all():
    assert ends([12.0, 30.0], [INF, INF]) == ([USED, USED], 30.0)


def test_who_goes_away_in_the_middle_is_dropped_and_noticed_then():
    assert ends([12.0, 30.0], [INF, 20.0]) == ([USED, DROPPED], 20.0)


def test_who_leaves_at_the_very_end_of_the_work_is_used():
    assert ends([12.0, 30.0], [12.0, 30.0]) == ([USED, USED], 30.0)


def test_past_the_deadline_is_late_and_the_round_ends_there():
    assert ends([12.0, 30.0], [INF, INF], deadline_s=15.0) == ([USED, LATE], 15.0)


def test_who_leaves_after_the_deadline_is_late_not_dropped():
    assert ends([12.0, 30.0], [INF, 20.0], deadline_s=15.0) == ([USED, LATE], 15.0)


def test_with_enough_replies_nobody_waits_for_one_who_leaves_later():
    assert ends([12.0, 13.0, 30.0], [INF, INF, 20.0], first=2) == ([USED, USED, LATE], 13.0)
    assert ends([12.0, 13.0, 30.0], [INF, INF, 12.5], first=2) == ([USED, USED, DROPPED], 13.0)
    assert ends([12.0, 13.0, 30.0], [INF, INF, 20.0], first=3) == ([USED, USED, DROPPED], 20.0)


def test_an_over_selected_cohort_takes_the_first_and_ties_go_to_the_lower_id():
    status, close = ends([14.0, 12.0, 14.0, 11.0], [INF] * 4, first=3)
    assert (status, close) == ([USED, USED, LATE, USED], 14.0)


def test_who_is_away_does_no_work_that_takes_no_time():
    """The first is there until 12 s, the second is away when the task begins."""
    gone = np.array([12.0, 10.0])
    end = postponed(np.array([10.0, 10.0]), gone, 10.0)
    assert ends(end, gone) == ([USED, DROPPED], 10.0)


def test_nobody_there_ends_at_once():
    assert ends([], []) == ([], 10.0)


def begun(clock, ask, ids, number=0):
    """What an Ask of round 1 takes clients who are asked at 10 s."""
    return clock.begun(
        ask, Traffic(0, 0), ids, 10.0, round=1, number=number, step_state={}, ahead={}
    )  # fmt: skip


def clock_of(scenario):
    (run,) = api.prepare(api.read(scenario)).runs
    return Clock(run, StepCounter(run))


def test_nobody_looked_whether_the_visited_one_is_there(mixed):
    away = {"name": "cyclic", "groups": 2, "period_s": 50.0}  # client 0 in [0, 50), 1 in [50, 100)
    made = mixed(clients={"count": 2, "availability": away}, participation={"cohort": 1})
    clock, both = clock_of(made), np.arange(2)
    gone = {}
    for whom in (None, "visited"):
        ask = Ask("work", send={}, up={}, cost=1.0, clients=whom)
        gone[whom] = begun(clock, ask, both).gone_s.tolist()
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
        task = clock.duration(ask, Traffic(2_000_000, 1_000_000), ids, pace, none)
        parts = (task.down_s, task.compute_s, task.up_s)
        assert [seconds.tolist() for seconds in parts] == [[2.0], [1.5], [2.0]]
        times = clock.alone(ids, task, np.array([7.0]), np.array([INF]), None)
        assert times.end_s.tolist() == [12.5]

    def test_who_is_not_there_leaves_at_once(self, clock):
        ids = np.arange(3)  # one after another for 50 s
        assert clock.leaving(ids, 60.0, 1).tolist() == [60.0, 100.0, 60.0]


class TestInterruptions:
    """Three clients that take turns of 50 s: client k is there from 50 k, and again 150 s later."""

    @pytest.fixture
    def clock_for(self, mixed):
        def made(**changes):
            clients = {
                "count": 3,
                "delay": "constant",
                "availability": {"name": "cyclic", "groups": 3, "period_s": 50.0},
                **changes,
            }
            participation = {"cohort": 1, "interrupted": "resume"}
            return clock_of(mixed(clients=clients, participation=participation))

        return made

    def timing(self, clock, seconds):
        ask = Ask("work", send={}, up={}, cost=np.asarray(seconds, dtype=float))
        return begun(clock, ask, np.arange(3))

    def test_work_stands_still_while_its_client_is_away(self, clock_for):
        """Client 0 works for 40 s, 50 s, 50 s and 10 s."""
        timing = self.timing(clock_for(), [150.0, 20.0, 60.0])
        assert (timing.end_s[0], timing.gone_s[0]) == (460.0, INF)
        assert timing.duration.compute_s[0] == 150.0

    def test_work_that_ends_with_a_stay_is_done(self, clock_for):
        timing = self.timing(clock_for(), [90.0, 1.0, 1.0])
        assert (timing.end_s[0], timing.gone_s[0]) == (200.0, INF)

    def test_who_was_away_from_the_start_begins_when_it_is_back(self, clock_for):
        clock, ids = clock_for(), np.arange(3)
        ask = Ask("work", send={}, up={}, cost=20.0)
        timing = begun(clock, ask, ids, number=1)
        assert timing.end_s.tolist() == [30.0, 70.0, 120.0]
        assert (timing.gone_s >= timing.end_s).all()

    def test_who_never_comes_back_is_dropped_when_it_leaves_for_the_last_time(
        self, clock_for, tmp_path
    ):
        file = tmp_path / "trace.csv"
        file.write_text("client,start_s,end_s\n0,0,20\n0,30,40\n1,0,25\n2,0,90\n")
        timing = self.timing(
            clock_for(availability={"name": "trace", "file": str(file)}), [15.0, 15.0, 30.0]
        )
        assert timing.end_s.tolist() == [35.0, 25.0, 40.0]  # client 0: 10 s, a break of 10 s, 5 s
        timing = self.timing(
            clock_for(availability={"name": "trace", "file": str(file)}), [25.0, 16.0, 30.0]
        )
        assert timing.gone_s.tolist()[:2] == [40.0, 25.0]
        assert ends(timing.end_s, timing.gone_s)[0] == [DROPPED, DROPPED, USED]

    @pytest.mark.parametrize(
        ("interrupted", "status", "time_s"), [("drop", DROPPED, 50.0), ("resume", USED, 170.0)]
    )
    def test_a_round_waits_for_who_comes_back(self, mixed, tmp_path, interrupted, status, time_s):
        """Client 0, the only one there, works for 70 s, of which its first stay has 50 s."""
        clients = {
            "count": 3,
            "delay": {"name": "constant", "mean_s": 14.0},  # 5 steps
            "availability": {"name": "cyclic", "groups": 3, "period_s": 50.0},
        }
        made = mixed(clients=clients, participation={"interrupted": interrupted}, rounds=1)
        result = api.run(made, out=tmp_path, page=False)
        assert result.rounds["time_s"].iloc[-1] == time_s
        assert result.events["status"].tolist() == [STATUS[status]]

    def test_a_broken_connection_loses_the_work(self, clock_for):
        sure, never = ({"availability": "always", "network": {"loss": p}} for p in (1.0, 0.0))
        timing = self.timing(clock_for(**sure), [30.0, 30.0, 30.0])
        assert ((timing.gone_s > 10.0) & (timing.gone_s < 40.0)).all()
        assert np.isinf(self.timing(clock_for(**never), [30.0] * 3).gone_s).all()

    @pytest.mark.parametrize("p", [0.0, 0.5, 1.0])
    def test_work_that_takes_no_time_ends_at_once_whatever_is_lost(self, clock_for, p):
        made = {"availability": "always", "network": {"loss": p}}
        timing = self.timing(clock_for(**made), [0.0] * 3)
        assert timing.end_s.tolist() == [10.0] * 3
        assert set(timing.gone_s) <= {10.0, INF}
