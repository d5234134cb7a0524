"""GIANT: exact where clients are alike, tamed by its line search where they are not."""

import numpy as np
import pandas as pd
import pytest

from rayfed import api
from rayfed.algorithms import GIANT
from rayfed.core.errors import RayfedError
from rayfed.problems import LeastSquares
from rayfed.problems.objective import Objective
from rayfed.runs.serial import SerialStudy

H = {"same": (2.0, 2.0), "other": (8.0, 0.5)}  # curvatures of two clients with b = 4 each


@pytest.fixture
def model(tmp_path):
    """Run one round on F_i = h_i (x - 4 / h_i)^2 / 2 from 0, F their sum; return the row and x."""

    def run(curvatures, rows=1, **algorithm):
        root = np.sqrt(np.repeat(curvatures, rows))
        frame = pd.DataFrame({"client": np.repeat([0, 1], rows), "a": root, "y": 4 / root})
        frame.to_csv(tmp_path / "two.csv", index=False)
        scenario = {
            "rounds": 1,
            "problem": {
                "name": "least-squares", "intercept": False, "dataset": str(tmp_path / "two.csv"),
                "weighting": "sum",
            },
            "clients": {"delay": "constant"},
            "algorithms": [{"name": "giant", **algorithm}],
            "executor": "serial",
        }  # fmt: skip
        plan = api.prepare(api.read(scenario))
        out = tmp_path / "out"
        outcome = SerialStudy(out).execute(plan.runs, plan.tables, False, lambda *_: None)
        result = api.Result(out, outcome)
        return result.rounds.iloc[-1], result.model("giant-seed0").item()

    return run


def test_alike_clients_take_the_newton_step(model):
    row, x = model(H["same"])
    assert x == pytest.approx(2.0, rel=1e-14)  # 8 / (2 + 2)
    assert row.server_lr == 1


def test_unlike_clients_overshoot_without_a_line_search(model):
    """Each takes 2 h_i for the Hessian of the sum, 8.5: the mean of 8/16 and 8/1, not 8/8.5."""
    row, x = model(H["other"], line_search=False)
    assert x == pytest.approx((8 / 16 + 8 / 1) / 2, rel=1e-14)
    assert row.communications == 2


def test_the_line_search_takes_the_first_step_with_enough_decrease(model):
    """F(x) - F(0) = 8.5 x^2 / 2 - 8 x along v = 4.25: 42.8 at 1, -3.7 at 1/4, of -8 x / 10."""
    row, x = model(H["other"])
    assert (row.server_lr, row.communications) == (0.25, 3)
    assert x == pytest.approx(0.25 * 4.25, rel=1e-14)


def test_where_no_step_is_short_enough_the_model_stays(model):
    """Client 0 has a curvature of 1e-13: steps of 4^-9 of its direction are too long by far."""
    row, x = model((1e-13, 8.0))
    assert (row.server_lr, x) == (0, 0)


def test_what_a_round_costs(model):
    """In passes of 1 s: gradient 1, Hessian at least 1, line search 5. Numbers of 8 bytes."""
    row, _ = model(H["same"])
    assert row.time_s == 7
    assert (row.bytes_down, row.bytes_up) == (8 * 2 * 3, 8 * 2 * (1 + 1 + 1 + 11 + 1))
    row, _ = model(H["same"], line_search=False)
    assert row.time_s == 2


def test_the_ridge_is_on_the_scale_of_f(model):
    _, x = model(H["same"], ridge=4.0, line_search=False)
    assert x == pytest.approx(8 / (4 + 4), rel=1e-14)


def test_a_singular_hessian_is_one_clear_line():
    class Clients:
        """A client whose rows say nothing about the second coordinate."""

        mass = np.ones(1)
        objective = Objective(LeastSquares(), 1, 1, 2)
        state = {"x": np.zeros((1, 2))}  # noqa: RUF012

        def hessian(self, x):
            return np.diag([1.0, 0.0])[None]

    with pytest.raises(RayfedError, match="its Hessian is singular; give giant a ridge above 0"):
        GIANT().direction(Clients(), np.ones(2))
    told = GIANT(ridge=1.0).direction(Clients(), np.ones(2))
    assert told.values["direction"].tolist() == [[0.5, 1.0]]
