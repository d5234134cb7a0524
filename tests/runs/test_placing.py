"""Forecasts of the wall-clock time of runs in each placement."""

import pytest

from rayfed import api
from rayfed.runs.placing import (
    ACTOR_S,
    BYTE_S,
    EXCHANGE_S,
    RAY_S,
    WORKER_S,
    Work,
    forecast_s,
    measure,
)

SCENARIO = {
    "rounds": 4,
    "problem": {"name": "softmax-regression", "dataset": {"name": "synthetic", "features": 3}},
    "clients": {"count": 6},
    "participation": {"cohort": 3},
    "algorithms": [{"name": "scaffold", "local": {"steps": 2, "lr": 0.1}}],
    "executor": "serial",
}


def test_workers_take_one_run_after_the_other():
    """Runs of 3, 1, 1 and 4 s on two CPUs: 3 and 1 + 1, then 4 to the second, 2 + 4."""
    runs = [(3, Work(1.0, 0.0, 1, 0)), *[(1, Work(1.0, 0.0, 1, 0))] * 2, (2, Work(2.0, 0.0, 1, 0))]
    seconds = forecast_s(runs, clients=8, cpus=2)
    assert seconds["serial"] == 9.0
    assert seconds["workers"] == WORKER_S + 6.0


def test_actors_and_a_driver_share_what_clients_compute():
    """One run of ten rounds: 1 s beside 3 s that three processes share, two Asks of 1,000 B."""
    seconds = forecast_s([(10, Work(4.0, 3.0, 2, 1000))], clients=3, cpus=4)
    sent = 2 * (EXCHANGE_S + 1000 * BYTE_S) * 2  # to two actors
    assert seconds["ray"] == pytest.approx(RAY_S + 3 * ACTOR_S + 10 * (1.0 + 1.0 + sent))


def test_drivers_side_by_side_cannot_use_more_than_all_cpus():
    """Two runs whose clients compute all the time: two CPUs are busy for all they compute."""
    runs = [(10, Work(1.0, 1.0, 1, 0))] * 2
    busy = 20 * (1.0 + EXCHANGE_S)
    assert forecast_s(runs, 4, 2)["ray"] == pytest.approx(RAY_S + 3 * ACTOR_S + busy / 2)


def test_a_measured_round_is_of_the_run_and_changes_nothing(capsys):
    plan = api.prepare(api.read(SCENARIO))
    run = plan.runs[0]
    work = measure(run, plan.tables)
    assert 0 < work.shared_s < work.round_s < 60
    assert work.exchanges == 2  # the local work of a round, and its evaluation
    assert work.model_bytes == run.training.x0.nbytes
    assert capsys.readouterr() == ("", "")
