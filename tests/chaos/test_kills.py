"""Real kills: which there are, what is said of them, and a few of them."""

import random
import signal
import sys
from collections import Counter
from itertools import pairwise

import pytest

from tests.chaos import kills, processes
from tests.chaos.kills import EXECUTORS, Campaign, Kill, Tally, in_turn, kinds
from tests.chaos.processes import RAYS, Running


def test_every_kind_of_kill_comes_as_often_and_under_another_executor():
    every = kinds()
    assert {kill.executor for kill in every} == set(EXECUTORS)
    assert {kill.victim for kill in every} == {"main", "worker", *RAYS}
    assert {kill.number for kill in every if kill.victim == "main"} == {"kill", "term", "int"}
    ordered = in_turn(random.Random(3), 3 * len(every))
    assert set(Counter(ordered).values()) == {3}
    same = sum(one.executor == two.executor for one, two in pairwise(ordered))
    assert same <= 2  # where the last ones are of one executor


@pytest.mark.parametrize(
    ("victim", "number", "status", "said", "wrong"),
    [
        ("main", "kill", -9, "", []),
        ("main", "term", 130, "interrupted", []),
        ("main", "term", 1, "interrupted", ["its status is 1: interrupted"]),
        ("gcs", "kill", 1, "Ray's gcs_server has ended", []),
        ("gcs", "kill", 2, "?", ["its status is 2: ?"]),
        ("client", "kill", 0, "", []),
        ("client", "kill", 1, "", ["its status is 1: "]),
        ("driver", "kill", None, "", ["it does not end"]),
        ("main", "int", 130, "Traceback", ["it says 'Traceback'"]),
    ],
)
def test_an_end_that_should_not_be_is_noticed(victim, number, status, said, wrong):
    assert list(kills._wrong(Kill("serial", victim, number), status, said)) == wrong


def test_the_table_counts_kills_and_who_went_on():
    tally = Tally()
    tally.kills[Kill("serial", "main", "kill")] = 2
    tally.resumes["serial", "workers"] = 1
    tally.resumes["serial", "serial"] = 1
    tally.ends["network"] = 1
    assert list(tally.lines()) == [
        "2 kills", "    2  serial: main, SIGKILL",
        "2 resumes, 1 of them under another executor",
        "    1  serial -> serial", "    1  serial -> workers",
        "1 studies ended with the bytes of undisturbed ones", "    1  network",
        "0 findings",
    ]  # fmt: skip


def test_what_a_command_leaves_is_known_and_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "GONE_S", 0.1)
    script = "import subprocess, time; subprocess.Popen(['sleep', '600']); time.sleep(600)"
    with Running(tmp_path, [sys.executable, "-c", script]) as study:
        while not study.known:
            study._look()
        assert study.strike("main", signal.SIGKILL)
        assert study.wait() == -signal.SIGKILL
        assert study.left() == ["sleep 600"]
    monkeypatch.setattr(processes, "GONE_S", 30.0)
    assert study.left() == []


@pytest.mark.slow
@pytest.mark.ray
def test_studies_that_are_killed_end_with_the_bytes_of_undisturbed_ones(tmp_path):
    each = {(kill.executor, kill.victim): kill for kill in kinds()}
    chosen = [kill for kill in each.values() if kill.executor != "ray, an actor to a CPU"]
    tally = Campaign(tmp_path, random.Random(5)).run(chosen)
    assert tally.findings == []
    assert sum(tally.kills.values()) == len(chosen)
    assert tally.ends
