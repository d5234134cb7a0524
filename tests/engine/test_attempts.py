"""Time-outs and retries: who is asked again, when, and what becomes of every attempt."""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import rayfed
from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.engine.cohort import Waiting
from rayfed.engine.tasks import Task
from rayfed.engine.timeline import Timeline, fate, settled
from tests.chaos.case import Case, run_case
from tests.chaos.faults import Fault

USED, LATE, DROPPED = range(3)
NAMES = ("used", "late", "dropped")


@dataclass
class Patience:
    """How long the server waits for a client, and how often it asks again."""

    timeout_s: float
    retries: int
    first: int | None = None
    deadline_s: float = math.inf


def timer(durations, gone=()):
    """Durations by client and number of the attempt; those who leave, and when."""

    def timing(client, now_s, number):
        takes = durations[client][min(number, len(durations[client]) - 1)]
        return takes, dict(gone).get(client, math.inf)

    return timing


def same(failed, now_s, asked):
    return failed


def attempts(ids, now_s, how, takes, successors):
    """Wait for clients on a timeline; return rows of attempts, and when the server stops waiting.

    `takes(client, now_s, number)` gives the seconds of an attempt, and when its client leaves.
    """
    line = Timeline()
    line.now_s = now_s

    def begin(ids, drawn, attempt):
        tasks = []
        for serial, client in enumerate(ids.tolist(), line.serial + 1):
            seconds, gone_s = takes(client, line.now_s, attempt)
            status, over_s = fate(line.now_s + seconds, gone_s, line.now_s + how.timeout_s)
            tasks.append(Task(*[0] * len(Task._fields))._replace(
                over_s=over_s, client=client, serial=serial, status=status, attempt=attempt,
                start_s=line.now_s,
            ))  # fmt: skip
        line.begin(tasks)
        return tasks

    def others(failed, now_s, asked):
        ids = np.array(successors(failed.client.tolist(), now_s, asked.tolist()), dtype=int)
        return ids, np.ones_like(ids)

    waiting = Waiting(line, how.first, how.deadline_s)
    waiting.run(np.array(ids), np.ones(len(ids), dtype=int), begin, others, how.retries)
    waiting.break_off()
    assert not line.open
    tasks = waiting.tasks()
    status, close_s = settled(tasks, now_s, how.first, how.deadline_s)
    assert line.now_s == close_s or close_s == how.deadline_s
    columns = (tasks.client, tasks.attempt, tasks.start_s, tasks.over_s)
    words = [NAMES[word] for word in status.tolist()]
    return list(zip(*(column.tolist() for column in columns), words, strict=True)), close_s


class TestByHand:
    """Asked at 100 s."""

    def test_the_same_client_is_asked_again(self):
        """Client 1 needs 4 s, and 2.5 s at the second attempt; client 2 always needs 9 s."""
        how = Patience(timeout_s=3.0, retries=2)
        takes = timer({0: [1.5], 1: [4.0, 2.5], 2: [9.0]})
        found, close_s = attempts([0, 1, 2], 100.0, how, takes, same)
        assert found == [
            (0, 0, 100.0, 101.5, "used"),
            (1, 0, 100.0, 103.0, "late"),
            (2, 0, 100.0, 103.0, "late"),
            (1, 1, 103.0, 105.5, "used"),
            (2, 1, 103.0, 106.0, "late"),
            (2, 2, 106.0, 109.0, "late"),
        ]
        assert close_s == 109.0

    def test_another_one_is_asked_in_its_place(self):
        """Clients 5 and 6 take the places of 1, which is timed out, and of 2, which goes away."""
        line, seen = iter([5, 6]), []

        def other(failed, now_s, asked):
            seen.append((failed, now_s, asked))
            return [next(line)]

        takes = timer({0: [1.0], 1: [8.0], 2: [2.0], 5: [2.0], 6: [2.5]}, gone=[(2, 101.25)])
        how = Patience(timeout_s=3.0, retries=1)
        found, close_s = attempts([0, 1, 2], 100.0, how, takes, other)
        assert seen == [([2], 101.25, [0, 1, 2]), ([1], 103.0, [0, 1, 2, 5])]
        assert found[1:] == [
            (1, 0, 100.0, 103.0, "late"),
            (2, 0, 100.0, 101.25, "dropped"),
            (5, 1, 101.25, 103.25, "used"),
            (6, 1, 103.0, 105.5, "used"),
        ]
        assert close_s == 105.5

    def test_nobody_is_asked_again_after_the_first_replies(self):
        """Two replies are there at 102 s; client 2 tasks on, client 3 is timed out too late."""
        takes = timer({0: [1.0], 1: [2.0], 2: [2.5], 3: [9.0]})
        how = Patience(timeout_s=2.75, retries=5, first=2)
        found, close_s = attempts([0, 1, 2, 3], 100.0, how, takes, same)
        assert [row[4] for row in found] == ["used", "used", "late", "late"]
        assert close_s == 102.0

    def test_nor_after_the_deadline(self):
        """The time-outs are at 103, 106 and 109 s; nothing begins at 106 s or later."""
        how = Patience(timeout_s=3.0, retries=5, deadline_s=106.0)
        found, close_s = attempts([0], 100.0, how, timer({0: [9.0]}), same)
        assert [row[1:4] for row in found] == [(0, 100.0, 103.0), (1, 103.0, 106.0)]
        assert close_s == 106.0

    def test_a_reply_at_the_time_out_is_in_time(self):
        found, _ = attempts([0], 100.0, Patience(3.0, 1), timer({0: [3.0]}), same)
        assert found == [(0, 0, 100.0, 103.0, "used")]


def chain(takes, leaves, timeout_s):
    """Yield the attempts of one client that is asked again: (number, start, end, status)."""
    start = 0.0
    for number, (seconds, left) in enumerate(zip(takes, leaves, strict=True)):
        over = min(seconds, left, timeout_s)
        word = "used" if over == seconds else "dropped" if over == left else "late"
        yield number, start, start + over, word
        if word == "used":
            return
        start += over


def test_agrees_with_a_simulation_client_by_client():
    """Times are whole numbers, so that they tie often."""
    rng = np.random.default_rng(4)
    for _ in range(200):
        count, retries = int(rng.integers(1, 6)), int(rng.integers(0, 4))
        takes = rng.integers(1, 9, (count, retries + 1)).astype(float)
        leaves = np.where(rng.random(takes.shape) < 0.3, rng.integers(1, 9, takes.shape), np.inf)
        first = int(rng.integers(1, count + 1)) if rng.random() < 0.5 else None
        limit = float(rng.integers(1, 20)) if rng.random() < 0.5 else math.inf
        how = Patience(float(rng.integers(1, 8)), retries, first, limit)

        def timing(client, now_s, number, takes=takes, leaves=leaves):
            return takes[client, number], now_s + leaves[client, number]

        expected = [
            (client, *one)
            for client in range(count)
            for one in chain(takes[client].tolist(), leaves[client].tolist(), how.timeout_s)
        ]
        ends = sorted((end, client) for client, _, _, end, word in expected if word == "used")
        close = min(max(end for *_, end, _ in expected), limit)
        if first is not None and len(ends) >= first:
            close = min(ends[first - 1][0], limit)
        among = {client for _, client in ends[: first or count]}
        expected = [
            (
                *row[:4],
                row[4] if row[3] <= close and (row[4] != "used" or row[0] in among) else "late",
            )
            for row in expected
            if row[1] == 0 or row[2] < close
        ]
        found, close_s = attempts(range(count), 0.0, how, timing, same)
        assert close_s == close
        assert sorted(found) == sorted(expected)


# -- runs ----------------------------------------------------------------------------------


def scenario(mixed, participation, **clients):
    made = mixed(rounds=6, algorithms=[{"name": "scaffold", "local": {"steps": 2, "batch": 2}}])
    delay = {"name": "exponential", "mean_s": 1.0}
    made["clients"] = {"count": 8, "delay": delay, **clients}
    made["participation"] = {"cohort": 3, **participation}
    return {**made, "executor": "serial"}


def tables(made, folder):
    rayfed.run(made, out=folder, page=False)
    (run,) = [path.parent for path in folder.glob("*/run.json")]
    return [pd.read_parquet(run / f"{name}.parquet") for name in ("rounds", "events")]


@pytest.mark.parametrize("retry", ["same", "other"])
def test_all_attempts_are_counted_once(mixed, tmp_path, retry):
    how = {"timeout_s": 1.5, "retries": 2, "retry": retry}
    made = scenario(mixed, how, network={"loss": 0.2})
    rounds, events = tables(made, tmp_path / "out")
    for status, column in (("used", "participants"), ("late", "late"), ("dropped", "dropped")):
        assert (events["status"] == status).sum() == rounds[column].sum() > 0
    assert (events["end_s"] - events["start_s"]).max() <= 1.5 + 1e-12
    assert rounds["bytes_down"].sum() % len(events) == 0  # each attempt downloads the same
    again = events[events["ask"] > 0]
    assert len(again) > 3
    for _, mine in events.groupby("round"):
        assert mine["ask"].max() <= 2
        assert ((mine["status"] == "used").groupby(mine["client"]).sum() <= 1).all()
        if retry == "other":
            assert not mine["client"].duplicated().any()
        else:
            assert mine["client"].nunique() == 3
            for _, own in mine.sort_values("ask").groupby("client"):
                assert all(a <= b for a, b in pairwise(own["start_s"]))
                assert (own["end_s"][:-1].to_numpy() == own["start_s"][1:].to_numpy()).all()


def test_time_outs_that_nobody_misses_change_nothing(mixed, tmp_path):
    plain = tables(scenario(mixed, {}), tmp_path / "plain")
    patient = tables(scenario(mixed, {"timeout_s": 1e6, "retries": 3}), tmp_path / "patient")
    for one, two in zip(plain, patient, strict=True):
        pd.testing.assert_frame_equal(one, two)


@pytest.mark.guard
@pytest.mark.parametrize("retry", ["same", "other"])
def test_on_other_hosts_and_after_a_kill_the_bytes_are_the_same(mixed, tmp_path, retry):
    how = {"timeout_s": 1.5, "retries": 2, "retry": retry, "over_select": 1.5}
    made = scenario(mixed, how, network={"loss": 0.2}, crash={"probability": 0.2})
    made |= {"checkpoint": {"every_s": 0}, "rounds": 5}
    case = Case(0, made, 2, 0.5, (Fault("kill", 0.6, 0.5),), page=False, ray=False)
    outcome = run_case(case, tmp_path)
    assert outcome.findings == []
    assert outcome.runs == {"finished": 1}


def test_a_client_that_is_away_is_not_asked_again(mixed, tmp_path):
    """Client 0 is there for 5 s, then client 1 for 5 s; they need 2 s and 6 s of work.

    Client 0 tasks from 0, 2 and 4 s on, and goes away at 5 s; client 1 goes away at 10 s.
    """
    groups = [{"ids": [1], "delay": {"name": "constant", "mean_s": 3.0}}]
    turns = {"name": "cyclic", "groups": 2, "period_s": 5.0}
    made = scenario(
        mixed, {"select": "all", "cohort": None, "retries": 3},
        count=2, delay={"name": "constant", "mean_s": 1.0}, groups=groups, availability=turns,
    )  # fmt: skip
    _, events = tables({**made, "rounds": 4}, tmp_path / "out")
    mine = events[events["status"] == "dropped"]
    found = mine[["client", "ask", "start_s", "end_s"]].to_numpy().tolist()
    assert found == [[0, 0, 4.0, 5.0], [1, 0, 5.0, 10.0]]
    assert len(events) == 4


def test_polls_are_asked_again_too(mixed, tmp_path):
    """What a poll costs differs from client to client, and some are asked once."""
    made = scenario(
        mixed, {"timeout_s": 0.7, "retries": 1, "select": {"name": "power-of-d", "d": 6}}
    )
    _, events = tables(made, tmp_path / "out")
    polls = events[(events["steps"] == 0) & (events["ask"] < 2)]
    again = polls["ask"].groupby(polls["round"]).sum()
    assert again.between(1, 5).any()


@pytest.mark.parametrize(
    ("changes", "place", "text"),
    [
        ({"retry": "other", "select": "oort"}, "retry", "'oort' draws whole cohorts"),
        ({"retry": "other", "correct": "intervals"}, "retry", "draws whole cohorts; use same"),
        ({"retry": "other", "select": "poisson"}, "retry", "'poisson' draws whole cohorts"),
        ({"over_select": 1.5, "select": "poisson"}, "over_select", "'poisson' draws a coin for"),
        ({"correct": "known"}, "correct", "makes the probability of taking part unknown"),
        ({"algorithm": "fedasync", "deadline_s": 9.0}, "deadline_s", "by timeout_s"),
        ({"algorithm": "fedasync", "retry": "other"}, "retry", "has no rounds; use same"),
    ],
)
def test_what_cannot_be_is_refused(mixed, changes, place, text):
    changes = dict(changes)
    name = changes.pop("algorithm", "fedavg")
    made = scenario(mixed, {"timeout_s": 3.0, "retries": 1, **changes})
    with pytest.raises(ScenarioError, match=text) as error:
        api.prepare(api.read({**made, "algorithms": [name]}))
    assert error.value.place == f"participation.{place}"
