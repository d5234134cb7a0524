"""What works on one timeline together: each by hand, with the clock in the comments.

A model has 1,000 bytes, and the server takes 1,000 bytes/s in all: one upload in a second.
"""

from dataclasses import replace

import numpy as np
import pytest

from rayfed import api, testing
from rayfed.core.errors import RunFailed
from rayfed.engine.loop import Loop
from rayfed.engine.tasks import events_of
from rayfed.engine.timeline import Timeline
from rayfed.executors.serial import SerialExecutor
from rayfed.runs.files.checkpoints import MANIFESTS, Checkpoints

FEATURES = 125
SHARED = {"uploads_mbps": 0.008}
WORDS = ("used", "late", "dropped", "unfinished")


def constant(mean_s):
    return {"name": "constant", "mean_s": mean_s}


def scenario(seconds, algorithm="fedavg", **changes):
    """Return clients of which each computes for so many seconds."""
    groups = [{"ids": [k], "delay": constant(s)} for k, s in enumerate(seconds)]
    data = {"name": "quadratic", "clients": len(seconds), "features": FEATURES}
    local = {"steps": 1, "batch": "full", "lr": 1e-3}
    made = {
        "name": "combined", "rounds": 3, "problem": {"name": "quadratic", "dataset": data},
        "participation": {"select": "all"}, "executor": "serial",
        "algorithms": [{"name": algorithm, "local": local}],
    }  # fmt: skip
    clients = {"groups": groups, **changes.pop("clients", {})}
    return {**made, **changes, "clients": clients}


def walked(made, paces=None, *, anew=False):
    """Return the events (round, client, start, end, status, version, staleness) and the rows.

    Parameters
    ----------
    paces : mapping of int to list of float, optional
        Seconds of the attempts of clients in place of those of their delay.
    anew : bool
        Whether each row begins from the values of a checkpoint.
    """
    loop = testing.loop(made)
    run = loop.run
    asynchronous = run.training.algorithm.asynchronous

    def pace(ids, draw, ask=0):
        attempts = np.broadcast_to(draw - 1 if asynchronous else ask, np.shape(ids))
        both = zip(ids.tolist(), attempts.tolist(), strict=True)
        return np.array([paces[i][min(k, len(paces[i]) - 1)] for i, k in both])

    if paces is not None:
        loop.exchange.clock.pace = pace
    state, _ = loop.start()
    found, rows = [], []
    names = ("round", "client", "start_s", "end_s", "status", "version", "staleness")
    for _ in range(run.ending.rounds):
        if anew and state.timeline is not None:
            state = replace(state, timeline=Timeline.of(state.timeline.arrays()))
        state, row, ended = loop.step(state)
        rows.append(row)
        columns = events_of(ended) if ended else dict.fromkeys(names, np.empty(0))
        known = names if run.overlaps else names[:5]
        found += zip(*(columns[name].tolist() for name in known), strict=True)
    return [(*row[:4], WORDS[row[4]], *row[5:]) for row in found], rows


def both_ways(made, paces=None):
    """Return what `walked` does, which a checkpoint after each row changes nothing of."""
    calm = walked(made, paces)
    assert repr(calm) == repr(walked(made, paces, anew=True))
    return calm


class TestStale:
    """participation.late: stale."""

    def test_late_uploads_stay_on_the_link_of_the_next_round(self):
        """Client 0 computes for 1 s, client 1 for 3.5 s; rounds end after 3 s.

        Client 0 sends from 1 s to 2 s, and begins anew at 3 s. Client 1 sends from 3.5 s on, has
        500 bytes left at 4 s, and shares the link with client 0: both get 500 bytes/s until it is
        done at 5 s. Client 0 has 500 bytes left then, and is done at 5.5 s, not at 5 s.
        """
        how = {"select": "all", "deadline_s": 3.0, "late": "stale"}
        made = scenario([1.0, 3.5], server=SHARED, participation=how, rounds=2)
        events, rows = both_ways(made)
        assert [row["time_s"] for row in rows] == [3.0, 5.5]
        assert [row["in_flight"] for row in rows] == [1, 0]
        assert events == [
            (1, 0, 0.0, 2.0, "used", 0, 0),
            (2, 0, 3.0, 5.5, "used", 1, 0),
            (2, 1, 0.0, 5.0, "used", 0, 1),
        ]

    def test_nobody_is_idle_until_an_upload_has_left_the_link(self):
        """Both compute for 1 s and send from 1 s to 3 s; rounds end after 2 s.

        The second round has nobody to ask until 3 s, where both replies are there. Its own are
        there at 6 s, but it ends at 5 s; both have 1,000 bytes, or half a link for 1 s, to go.
        """
        how = {"select": "all", "deadline_s": 2.0, "late": "stale"}
        made = scenario([1.0, 1.0], server=SHARED, participation=how, rounds=3)
        events, rows = both_ways(made)
        assert [row["time_s"] for row in rows] == [2.0, 5.0, 8.0]
        assert [row["participants"] for row in rows] == [0, 2, 2]
        assert [row[:4] for row in events] == [
            (2, 0, 0.0, 3.0), (2, 1, 0.0, 3.0), (3, 0, 3.0, 6.0), (3, 1, 3.0, 6.0),
        ]  # fmt: skip

    def test_an_attempt_goes_on_after_its_round(self):
        """Client 1 is timed out at 3 s and asked again; its second attempt takes 2.5 s.

        Rounds end at 4 s (deadline), 5 s and 6 s (client 0). The reply of 5.5 s is in the third.
        """
        how = {"select": "all", "deadline_s": 4.0, "late": "stale", "timeout_s": 3.0, "retries": 1}
        events, rows = both_ways(scenario([1.0, 9.0], participation=how), {0: [1.0], 1: [9.0, 2.5]})
        assert [row["time_s"] for row in rows] == [4.0, 5.0, 6.0]
        assert events == [
            (1, 0, 0.0, 1.0, "used", 0, 0),
            (1, 1, 0.0, 3.0, "late", 0, -1),
            (2, 0, 4.0, 5.0, "used", 1, 0),
            (3, 0, 5.0, 6.0, "used", 2, 0),
            (3, 1, 3.0, 5.5, "used", 0, 2),
        ]

    def test_and_is_timed_out_there(self):
        """The second attempt of client 1 ends at 6 s, in the third round; it began in the first.

        A late upload comes, and nobody takes it.
        """
        how = {"select": "all", "deadline_s": 4.0, "late": "stale", "timeout_s": 3.0, "retries": 1}
        events, rows = both_ways(scenario([1.0, 9.0], participation=how))
        assert [row[:5] for row in events if row[1] == 1] == [
            (1, 1, 0.0, 3.0, "late"), (3, 1, 3.0, 6.0, "late"),
        ]  # fmt: skip
        assert [row["late"] for row in rows] == [1, 0, 1]
        assert [row["bytes_down"] for row in rows] == [3000, 1000, 1000]
        assert [row["bytes_up"] for row in rows] == [2000, 1000, 2000]
        assert [row["bytes_wasted"] for row in rows] == [2000, 0, 2000]


class TestStandingStill:
    """participation.interrupted: resume, where the server's bandwidth is limited."""

    AWAY = {"name": "cyclic", "groups": 2, "period_s": 2.0}  # noqa: RUF012 - 0 in [0, 2), [4, 6)

    def made(self, seconds, **changes):
        made = scenario(seconds, server=SHARED, rounds=1, **changes)
        made["clients"]["groups"][0]["availability"] = self.AWAY
        made["participation"] |= {"interrupted": "resume"}
        return made

    def test_an_upload_leaves_the_link_and_comes_back(self):
        """Both send from 1 s on at 500 bytes/s, and have 500 bytes left when client 0 goes away.

        Client 1 has the link for itself and is done at 2.5 s, client 0 from 4 s to 4.5 s.
        """
        events, rows = walked(self.made([1.0, 1.0]))
        assert [row[1:] for row in events] == [(0, 0.0, 4.5, "used"), (1, 0.0, 2.5, "used")]
        assert rows[0]["time_s"] == 4.5

    def test_computing_stands_still_too(self):
        """Client 0 computes for 2 s of 2.5, and from 4 s to 4.5 s; then it sends for a second."""
        events, _ = walked(self.made([2.5, 1.0]))
        assert [row[1:] for row in events] == [(0, 0.0, 5.5, "used"), (1, 0.0, 2.0, "used")]

    def test_a_download_stands_still_too(self):
        """Downloads at 400 bytes/s: 200 each, 600 bytes left at 2 s; client 1 has 1.5 s to go.

        Client 0 is back at 4 s and receives until 5.5 s. It has computed half a second when it
        goes away at 6 s, computes from 8 s to 8.5 s, and sends.
        """
        made = self.made([1.0, 1.0])
        made["server"] = {**SHARED, "downloads_mbps": 0.0032}
        events, _ = walked(made)
        assert [row[1:] for row in events] == [(0, 0.0, 9.5, "used"), (1, 0.0, 5.5, "used")]

    def test_who_never_comes_back_is_dropped_when_it_leaves(self, tmp_path):
        file = tmp_path / "trace.csv"
        file.write_text("client,start_s,end_s\n0,0,1.5\n0,3,3.25\n1,0,99\n")
        made = self.made([1.0, 1.0])
        made["clients"]["groups"][0]["availability"] = {"name": "trace", "file": str(file)}
        events, _ = walked(made)
        # Both have 750 bytes left at 1.5 s; client 1 is done at 2.25 s, client 0 has 500 at 3.25 s.
        assert [row[1:] for row in events] == [(0, 0.0, 3.25, "dropped"), (1, 0.0, 2.25, "used")]

    def test_asynchronous_work_stands_still_on_the_link(self):
        """As above, until client 1 is done at 2.5 s and begins anew: it computes until 3.5 s.

        It sends alone until 4 s, and then beside client 0: both have 500 bytes left, until 5 s.
        """
        made = {**self.made([1.0, 1.0], algorithm="fedasync"), "rounds": 3}
        events, _ = both_ways(made)
        assert [row[1:5] for row in events] == [
            (1, 0.0, 2.5, "used"), (0, 0.0, 5.0, "used"), (1, 2.5, 5.0, "used"),
        ]  # fmt: skip


class TestAsynchronousRetries:
    """participation.retries of asynchronous algorithms: the client again, from the newest model."""

    TAKES = {0: [1.0], 1: [9.0, 2.0]}  # noqa: RUF012

    def test_the_client_is_asked_again_at_once(self):
        """Client 1 is timed out at 3 s, when client 0 has made versions 1 to 3.

        From version 3 it is done at 5 s, after the reply of client 0 that made version 5.
        """
        how = {"select": "all", "timeout_s": 3.0, "retries": 1}
        made = scenario([1.0, 9.0], "fedasync", participation=how, rounds=6)
        events, _ = both_ways(made, self.TAKES)
        mine = [row[1:] for row in events if row[1] == 1]
        assert mine == [(1, 0.0, 3.0, "late", 0, -1), (1, 3.0, 5.0, "used", 3, 2)]

    def test_it_keeps_its_place_until_it_has_failed_for_the_last_time(self):
        """One place, three clients that need 9 s: each has it for three attempts of 3 s."""
        how = {"cohort": 1, "timeout_s": 3.0, "retries": 2}
        made = scenario([9.0, 9.0, 9.0], "fedasync", participation=how, rounds=9)
        events, _ = both_ways(made)
        clients = np.array([row[1] for row in events]).reshape(-1, 3)
        assert (clients == clients[:, :1]).all()
        assert len(set(clients[:, 0].tolist())) > 1
        assert [row[2] for row in events] == [3.0 * k for k in range(len(events))]

    def test_a_tier_waits_for_who_is_asked_again(self):
        """Client 0 is done at 1 s; client 1 is timed out at 3 s and done at 5 s."""
        how = {"select": "all", "timeout_s": 3.0, "retries": 1}
        made = scenario([1.0, 9.0], "fedat", participation=how, rounds=1)
        made["algorithms"][0]["tiers"] = 1
        events, rows = walked(made, self.TAKES)
        assert rows[0]["time_s"] == 5.0
        assert [row[1:5] for row in events] == [
            (0, 0.0, 1.0, "used"), (1, 0.0, 3.0, "late"), (1, 3.0, 5.0, "used"),
        ]  # fmt: skip

    def test_in_a_tier_it_starts_from_what_the_tier_started_from(self):
        """Client 0 is a tier of its own: it makes versions 1 to 3 by 3 s, and 4 and 5 by 5 s.

        Client 1, timed out at 3 s, begins anew from version 0, whose model is mixed with its
        update at 5 s. In the next row it starts from version 6.
        """
        how = {"select": "all", "timeout_s": 3.0, "retries": 1}
        made = scenario([1.0, 9.0], "fedat", participation=how, rounds=9)
        made["algorithms"][0]["tiers"] = 2
        events, _ = both_ways(made, self.TAKES)
        mine = [row[1:] for row in events if row[1] == 1]
        assert mine[:2] == [(1, 0.0, 3.0, "late", 0, -1), (1, 3.0, 5.0, "used", 0, 5)]
        assert mine[2][1:6] == (5.0, 7.0, "used", 6, 2)


@pytest.mark.parametrize("name", ["flight.work.client", "pending.client", "timeline.works.client"])
def test_a_checkpoint_with_works_of_earlier_versions_is_refused_in_one_line(
    tmp_path, monkeypatch, name
):
    how = {"select": "all", "deadline_s": 4.0, "late": "stale"}
    plan = api.prepare(api.read(scenario([1.0, 9.0], participation=how)))
    executor = SerialExecutor(plan.tables)
    executor.open(plan.runs[0].folder, plan.runs[0].setup())
    state, _ = Loop(plan.runs[0], executor).start()
    checkpoints = Checkpoints(tmp_path)
    monkeypatch.setattr(
        "rayfed.runs.files.checkpoints._arrays",
        lambda moment: {"state.x": moment.state["x"], name: np.zeros(1)},
    )
    checkpoints.save(state, [], {})
    with pytest.raises(RunFailed, match="an earlier version of rayfed wrote the tasks"):
        checkpoints.read(MANIFESTS[0], tmp_path)
