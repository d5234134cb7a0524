"""The server's rounds on the simulated clock."""

import pytest

from rayfed.report.panels.timeline import round_clock
from rayfed.report.read.results import Results


@pytest.fixture
def run(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([4, 3, 2, 1], time_s=[0.0, 60.0, 150.0, 360.0]))
    return Results.read(tmp_path).runs_found[0]


def test_a_round_starts_where_the_one_before_ends(run):
    clock = round_clock(run)
    assert clock.rounds[["round", "start", "end"]].to_numpy().tolist() == [
        [1, 0, 60],
        [2, 60, 150],
        [3, 150, 360],
    ]
    assert (clock.worth, clock.unit, clock.title) == (60, "min", "simulated time (min)")


def test_the_clock_can_end_before_the_run(run):
    clock = round_clock(run, last=1)
    assert clock.end == 60
    assert clock.unit == "s"
