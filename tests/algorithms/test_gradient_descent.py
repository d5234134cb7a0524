"""Gradient descent by hand, under every weighting of F."""

import numpy as np
import pytest

from rayfed import api
from rayfed.algorithms.full_gradient import SHARE, terms, total
from rayfed.core.errors import ScenarioError
from rayfed.messages import Reply
from rayfed.problems import LeastSquares
from rayfed.problems.objective import Objective

MASS = np.array([1.0, 3.0, 4.0])
ROWS = np.array([[10.0, 1.0], [6.0, 1.0], [2.0, 1.0]])  # what stands for grad F_i, of 3 clients
F = {  # sum_i w_i ROWS_i, by hand
    "size": [(10 + 18 + 8) / 8, 1.0],
    "uniform": [6.0, 1.0],
    "sum": [18.0, 3.0],
}


@pytest.mark.parametrize(("weighting", "slope"), [("size", 7.0), ("uniform", 8.0), ("sum", 16.0)])
def test_a_round_steps_along_the_gradient_of_f(line, weighting, slope):
    """At x = 10 the gradients are 10, of a client with one row, and 6, of one with three."""
    step = {"name": "gradient-descent", "lr": 0.25}
    found = line(step, rows=(1, 3), weighting=weighting)
    assert found["gradient-descent"] == pytest.approx(10 - 0.25 * slope, rel=1e-14)


class Clients:
    """Three clients of an objective."""

    def __init__(self, weighting):
        self.mass = MASS
        self.objective = Objective(LeastSquares(weighting=weighting), 3, 8, 2)


def told(weighting, raw):
    """What the server learns where client i counts raw_i in means over participants."""
    sent = terms(Clients(weighting), gradient=ROWS)
    mean = {name: np.average(v, axis=0, weights=raw) for name, v in sent.items()}
    return total(Reply(np.arange(3), raw, mean, {}, np.ones(3, int)), "gradient")


@pytest.mark.parametrize("weighting", F)
def test_everybody_by_size_is_f(weighting):
    """So are as many draws in proportion to size: a client counts as often in the mean."""
    np.testing.assert_allclose(told(weighting, MASS), F[weighting], rtol=1e-14)


@pytest.mark.parametrize(("weighting", "factor"), [("size", 1), ("uniform", 1), ("sum", 3)])
def test_one_of_three_clients_stands_for_all(weighting, factor):
    alone = np.array([0.0, 1.0, 0.0])
    np.testing.assert_allclose(told(weighting, alone), factor * ROWS[1], rtol=1e-14)


def test_float32_stays_float32():
    reply = Reply(
        np.arange(1), np.ones(1),
        {"gradient": np.ones(2, np.float32), SHARE: np.float64(0.5)}, {}, np.ones(1, int),
    )  # fmt: skip
    assert total(reply, "gradient").dtype == np.float32


def test_weights_are_those_of_the_problem():
    with pytest.raises(ScenarioError, match=r"algorithms\.0\.weights: found uniform, but 'gradi"):
        api.read(
            {
                "rounds": 1, "problem": "least-squares", "clients": {"count": 2},
                "algorithms": [{"name": "gradient-descent", "weights": "uniform"}],
            }
        )  # fmt: skip
