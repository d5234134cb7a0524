"""The order of the clients in all figures."""

import pandas as pd

from rayfed.report.read.results import Results


def order(folder):
    return list(Results.read(folder).runs_found[0].clients_by_speed.index)


def events(seconds):
    """One event a client, of ten steps that take so many seconds in all."""
    base = {"round": 1, "ask": 0, "start_s": 0.0, "end_s": 9.0, "status": "used", "steps": 10}
    return pd.DataFrame([base | {"client": c, "compute_s": s} for c, s in seconds.items()])


def test_the_recorded_speed_decides_and_stragglers_come_last(tmp_path, run_writer, rows):
    clients = pd.DataFrame(
        {"client": [1, 2, 3], "speed_s": [0.1, 0.3, 0.2], "straggler": [True, False, False]}
    )
    run_writer(tmp_path, "fedavg", 0, rows([2, 1]), None, clients)
    assert order(tmp_path) == [3, 2, 1]


def test_equal_speeds_are_told_apart_by_what_was_seen(tmp_path, run_writer, rows):
    clients = pd.DataFrame({"client": [1, 2, 3], "speed_s": 1.0})
    run_writer(tmp_path, "fedavg", 0, rows([2, 1]), events({1: 8.0, 2: 2.0}), clients)
    assert order(tmp_path) == [2, 1, 3]


def test_without_a_record_of_clients_the_events_tell(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([2, 1]), events({1: 8.0, 2: 2.0}))
    found = Results.read(tmp_path).runs_found[0].clients_by_speed
    assert list(found["speed_s"]) == [0.2, 0.8]
    assert list(found["used"]) == [1, 1]
