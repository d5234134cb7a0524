"""Titles of panels: sentences that are computed from what the clients of a run did."""

import pandas as pd
import pytest

from rayfed.report.panels import participation, service, timeline
from rayfed.report.read.results import Results


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
    assert run.usage.waiting_share == pytest.approx(2 / 6)
    assert timeline.title(run) == (
        "A round of fedavg took 2 s on average; its clients spent 33 % of it waiting for the "
        "slowest; 25 % of the replies came late"
    )


def test_no_waiting_is_not_worth_a_word(tmp_path, run_writer, rows):
    events = pd.DataFrame({"round": [1], "ask": 0, "client": 0, "status": "used"})
    events = events.assign(start_s=0.0, compute_s=2.0, end_s=2.0, loss=1.0, steps=1)
    run_writer(tmp_path, "fedavg", 0, rows([2, 1]), events)
    only = Results.read(tmp_path).runs_found[0]
    assert timeline.title(only) == "A round of fedavg took 2 s on average"


def test_a_client_that_never_took_part_is_named(tmp_path, run_writer, rows):
    clients = pd.DataFrame({"client": [3, 4], "samples": 1, "speed_s": [1.0, 2.0], "used": [2, 0]})
    run_writer(tmp_path, "fedavg", 0, rows([3, 2, 1]), None, clients)
    only = Results.read(tmp_path).runs_found[0]
    said = "Client 4 never took part in 2 rounds, client 3 most often, twice"
    assert participation.rounds_title(only) == said


def test_the_slowest_fifth_is_told_by_updates_and_data(run):
    assert participation.title(run) == (
        "With fedavg the slowest fifth of the clients gave 33 % of the updates and hold 75 % of "
        "the data"
    )
    assert participation.rounds_title(run) == (
        "Client 1 took part least, once in 2 rounds, client 0 most, twice"
    )


def test_the_worst_tenth_is_at_least_one_client(run, tmp_path):
    assert service.fairness_title(Results.read(tmp_path)) == (
        "The worst-served tenth of the clients has accuracy 0.6 with fedavg"
    )
