"""Sentences that are computed from the data."""

import numpy as np
import pandas as pd
import pytest

from rayfed.report.page import words
from rayfed.report.read.results import Results
from rayfed.report.tables import summary


def answer(folder, target=None):
    results = Results.read(folder)
    return words.headline(results, summary(results, target=target))


def test_the_answer_names_winner_runner_up_and_time(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([8, 6, 4, 2]))
    run_writer(tmp_path, "fedexp", 0, rows([8, 2, 1, 1]))
    run_writer(tmp_path, "centralised", 0, rows([8, 0, 0, 0]))
    assert answer(tmp_path, 2.0) == (
        "fedexp reached loss 2 in 1 round, fedavg in 3; in simulated time 3 times sooner."
    )


def test_another_winner_in_time_is_said(tmp_path, run_writer, rows):
    run_writer(tmp_path, "short", 0, rows([8, 2, 1], time_s=[0.0, 100.0, 200.0]))
    run_writer(tmp_path, "cheap", 0, rows([8, 4, 1], time_s=[0.0, 10.0, 20.0]))
    assert answer(tmp_path, 2.0) == (
        "short reached loss 2 in 1 round, cheap in 2; in simulated time cheap was 5 times sooner."
    )


def test_level_times_are_not_called_a_win(tmp_path, run_writer, rows):
    run_writer(tmp_path, "a", 0, rows([8, 2], time_s=[0.0, 100.0]))
    run_writer(tmp_path, "b", 0, rows([8, 2], time_s=[0.0, 101.0]))
    assert answer(tmp_path, 2.0).endswith("in simulated time they are level.")


def test_who_did_not_reach_it_is_named(tmp_path, run_writer, rows):
    run_writer(tmp_path, "a", 0, rows([8, 2]))
    run_writer(tmp_path, "b", 0, rows([8, 7]))
    assert answer(tmp_path, 2.0) == (
        "a reached loss 2 in 1 round; b did not reach it; it took 2 s of simulated time."
    )
    assert answer(tmp_path, 1.0) == "No algorithm reached loss 1."


def test_seeds_that_differ_are_said(tmp_path, run_writer, rows):
    run_writer(tmp_path, "a", 0, rows([8, 2]))
    run_writer(tmp_path, "a", 1, rows([8, 7]))
    assert answer(tmp_path, 2.0) == "No algorithm reached loss 2 with every seed."


def test_those_who_tie_come_together(tmp_path, run_writer, rows):
    for name, time in (("a", 100.0), ("b", 300.0)):
        run_writer(tmp_path, name, 0, rows([8, 2], time_s=[0.0, time]))
    run_writer(tmp_path, "c", 0, rows([8, 4, 2], time_s=[0.0, 100.0, 400.0]))
    assert answer(tmp_path, 2.0) == (
        "a and b reached loss 2 in 1 round each, c in 2; "
        "in simulated time a was 3 times sooner than b."
    )


@pytest.mark.parametrize(("tied", "told"), [(4, "1 other"), (5, "2 others")])
def test_of_many_that_tie_three_are_named(tmp_path, run_writer, rows, tied, told):
    for label in "abcde"[:tied]:
        run_writer(tmp_path, label, 0, rows([8, 2]))
    assert answer(tmp_path, 2.0).startswith(f"a, b, c and {told} reached loss 2 in 1 round")


def test_a_name_with_a_comma_is_quoted(tmp_path, run_writer, rows):
    run_writer(tmp_path, "a, plain", 0, rows([8, 2]))
    assert answer(tmp_path, 2.0).startswith("“a, plain” reached loss 2 in 1 round")


def test_a_study_that_runs_says_so(tmp_path, run_writer, rows):
    run_writer(tmp_path, "a", 0, rows([8, 2]))
    run_writer(tmp_path, "a", 1, rows([8, 2]), status="running")
    assert answer(tmp_path, 2.0).endswith("(so far: 1 of 2 runs have ended).")


def test_nothing_improved_and_nothing_recorded(tmp_path, run_writer, rows):
    run_writer(tmp_path, "a", 0, rows([1, 2]))
    assert answer(tmp_path) == "a ended at loss 2; no algorithm did better than at its start."
    run_writer(tmp_path / "other", "b", 0, rows([np.nan, np.nan]))
    assert answer(tmp_path / "other") == "No loss is recorded yet."


@pytest.fixture
def run(tmp_path, run_writer, rows):
    """Two rounds of 2 s: client 0 answers after 1 s, client 1 after 2 s, then comes late."""
    events = pd.DataFrame(
        {
            "round": [1, 1, 2, 2],
            "ask": 0,
            "client": [0, 1, 0, 1],
            "start_s": [0.0, 0.0, 2.0, 2.0],
            "compute_s": [0.5, 1.5, 0.5, 3.0],
            "end_s": [1.0, 2.0, 3.0, 6.0],
            "status": ["used", "used", "used", "late"],
            "loss": 1.0,
            "steps": 10,
        }
    )
    clients = pd.DataFrame(
        {
            "client": [0, 1],
            "samples": [100, 300],
            "speed_s": [0.1, 0.3],
            "selected": [2, 2],
            "used": [2, 1],
            "loss": [0.5, 0.7],
            "accuracy": [0.9, 0.6],
        }
    )
    run_writer(tmp_path, "fedavg", 0, rows([3, 2, 1]), events, clients)
    return Results.read(tmp_path).runs_found[0]


def test_waiting_is_the_time_after_the_last_reply(run):
    # Waited: 1 s, 0 s and 1 s out of three times 2 s.
    assert words.waiting_share(run) == pytest.approx(2 / 6)
    assert words.timeline_title(run) == (
        "A round of fedavg took 2 s on average; its clients spent 33 % of it waiting for the "
        "slowest; 25 % of the replies came late"
    )


def test_no_waiting_is_not_worth_a_word(tmp_path, run_writer, rows):
    events = pd.DataFrame({"round": [1], "ask": 0, "client": 0, "status": "used"})
    events = events.assign(start_s=0.0, compute_s=2.0, end_s=2.0, loss=1.0, steps=1)
    run_writer(tmp_path, "fedavg", 0, rows([2, 1]), events)
    only = Results.read(tmp_path).runs_found[0]
    assert words.timeline_title(only) == "A round of fedavg took 2 s on average"


def test_a_client_that_never_took_part_is_named(tmp_path, run_writer, rows):
    clients = pd.DataFrame({"client": [3, 4], "samples": 1, "speed_s": [1.0, 2.0], "used": [2, 0]})
    run_writer(tmp_path, "fedavg", 0, rows([3, 2, 1]), None, clients)
    only = Results.read(tmp_path).runs_found[0]
    said = "Client 4 never took part in 2 rounds, client 3 most often, twice"
    assert words.rounds_title(only) == said


def test_the_slowest_fifth_is_told_by_updates_and_data(run):
    assert words.participation_title(run) == (
        "With fedavg the slowest fifth of the clients gave 33 % of the updates and hold 75 % of "
        "the data"
    )
    assert words.rounds_title(run) == (
        "Client 1 took part least, once in 2 rounds, client 0 most, twice"
    )


def test_the_worst_tenth_is_at_least_one_client(run, tmp_path):
    assert words.fairness_title(Results.read(tmp_path)) == (
        "The worst-served tenth of the clients has accuracy 0.6 with fedavg"
    )
