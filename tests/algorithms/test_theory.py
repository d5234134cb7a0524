"""Measures of single papers: what they keep between evaluations, and that a resume keeps it."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from rayfed import api
from rayfed.algorithms.fedhybrid.theorem import Merit
from rayfed.algorithms.rwsadmm.theory import Lagrangian
from rayfed.executors.serial import SerialExecutor
from rayfed.runs.driver import Driver
from rayfed.runs.files.stops import STOPPED


def evaluate(measure, known, round, sums, least=None, population=4):
    """Evaluate a server at 0 whose clients' uploads add up to `sums`, by client function."""
    view = SimpleNamespace(
        ask=lambda work, send, up: SimpleNamespace(sums=sums[work]),
        optimum=None if least is None else SimpleNamespace(value=least),
        population=SimpleNamespace(count=population), round=round, server={"x": np.zeros(1)},
    )  # fmt: skip
    return measure.measure(view, known)


def measured(values):
    """Return the column of contractions for values of Delta (NaN: F* is not known), by round.

    sum_i e_i(z) = z^2 / 2 has the least value 0 at z = 0, and so Delta is 13 F* + L.
    """
    measure, known, column = Merit(mu=1.0, multiple=1.0), None, []
    for round, value in values.items():
        sums = {
            "envelope": {"terms": np.array([0.0, 0.0, 1.0])},
            "lagrangian": {"terms": np.array([value])},
        }
        known = measure.init() if known is None else known
        row, known = evaluate(measure, known, round, sums, None if math.isnan(value) else 0.0)
        assert row["merit"] == pytest.approx(value, nan_ok=True)
        column.append(row["contraction_measured"])
    return column


def test_a_contraction_is_that_of_one_round():
    # from 8 in round 1 to 2 in round 3: a half in each of the two
    assert measured({0: math.nan, 1: 8.0, 3: 2.0})[1:] == pytest.approx(
        [math.nan, 0.5], nan_ok=True
    )


@pytest.mark.parametrize("values", [{0: 0.0, 1: 1.0}, {0: 1.0, 1: 0.0}, {0: 1.0, 1: math.nan}])
def test_there_is_no_contraction_from_or_to_what_is_not_positive(values):
    assert math.isnan(measured(values)[1])


def test_the_best_is_the_least_of_all_evaluations_of_all_clients():
    measure = Lagrangian(label="a", beta=1.0, epsilon=0.0)
    known, rows = measure.init(), []
    for round, (norm, asked) in enumerate([(4.0, 4), (2.0, 4), (1.0, 3), (3.0, 4)]):
        sums = {"lagrangian": {"terms": np.array([8.0, norm**2, asked]), "pull": np.zeros(1)}}
        row, known = evaluate(measure, known, round, sums)
        rows.append([row[name] for name in ("lagrangian", "stationarity", "stationarity_best")])
    np.testing.assert_array_equal(rows, [[2, 4, 4], [2, 2, 2], [math.nan, math.nan, 2], [2, 3, 2]])


@pytest.mark.parametrize(
    "algorithm",
    [
        {"name": "fedhybrid", "merit": True, "newton": 1, "alpha_newton": 0.5},
        {"name": "rwsadmm", "watch": True, "beta": 0.2, "local": {"steps": 1, "batch": "full"}},
    ],
    ids=lambda algorithm: algorithm["name"],
)
def test_what_is_known_survives_a_resume(algorithm, tmp_path, assert_same):
    scenario = {
        "rounds": 6, "evaluate": {"every": 2}, "clients": {"count": 3}, "executor": "serial",
        "problem": {"name": "least-squares", "dataset": "linear", "l2": 0.1},
        "algorithms": [algorithm],
    }  # fmt: skip
    (run,) = (plan := api.prepare(api.read(scenario))).runs

    def driver(folder):
        return Driver(run, tmp_path / folder, SerialExecutor(plan.tables))

    driver("calm").execute()
    stopped = driver("stopped")
    assert stopped.execute(report=lambda p: stopped.stop() if p.round == 3 else None) == STOPPED
    assert driver("stopped").execute(resume=True) == "finished"
    assert_same(tmp_path / "calm", tmp_path / "stopped")
