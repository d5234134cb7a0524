"""Lines that say what rounds do."""

import logging
from types import SimpleNamespace

import numpy as np
import pytest

import rayfed
from rayfed.engine.tasks import CountedTasks, Task, Tasks
from rayfed.runs.logger import round_line

BLANK = Task(*[0] * len(Task._fields))
RUN = SimpleNamespace(
    folder="fedavg-seed0",
    training=SimpleNamespace(algorithm=SimpleNamespace(centralised=False, asynchronous=False)),
    federation=SimpleNamespace(clients=SimpleNamespace(names=())),
)


def ended(clients, status):
    rows = [BLANK._replace(client=k, status=s) for k, s in zip(clients, status, strict=True)]
    return CountedTasks(Tasks.of(rows), np.zeros(len(rows)), 2, 0)


@pytest.mark.parametrize(
    ("recorded", "words"),
    [
        ([], "nobody was asked"),
        ([ended([], [])], "no task ended"),
        ([ended([], []), ended([3, 1, 2], [0, 0, 1])], "asked clients 1-3; 2 used, 1 late"),
    ],
)
def test_what_came_of_the_work_of_a_round(recorded, words):
    row = {"round": 2, "loss": np.nan, "time_s": 7.5}
    said = round_line(RUN, row, recorded)
    assert said == f"fedavg-seed0, round 2: {words}; 7.5 s simulated"


def test_rounds_in_which_no_work_ends_are_logged_too(tmp_path, caplog):
    study = {
        "name": "slow", "rounds": 6, "seeds": [0],
        "problem": {"name": "least-squares", "dataset": {"name": "linear", "features": 2}},
        "clients": {"count": 4, "delay": {"name": "constant", "mean_s": 10.0}},
        "participation": {"late": "stale", "deadline_s": 4.0}, "executor": "serial",
        "algorithms": [{"name": "fedavg", "local": {"steps": 1}}],
    }  # fmt: skip
    with caplog.at_level(logging.DEBUG, "rayfed"):
        result = rayfed.run(study, out=tmp_path / "out", page=False)
    assert result.outcome == {"fedavg-seed0": "finished"}
    assert "round 1: no task ended; loss " in caplog.text
