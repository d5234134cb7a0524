"""Logistic regression: values by an independent formula, and scores of any size."""

import math

import numpy as np
import pytest

from rayfed.problems import LogisticRegression
from rayfed.problems.base import Batch

PROBLEM = LogisticRegression(intercept=False)


def at(z, y, dtype=np.float64):
    """Return x and one row with score z and label y."""
    row = Batch(np.ones((1, 1, 1), dtype), np.array([[y]]), np.ones((1, 1), dtype), None)
    return np.array([[z]], dtype), row


@pytest.mark.parametrize("y", [0, 1])
@pytest.mark.parametrize("z", [-3.0, -0.1, 0.0, 2.5])
def test_loss_slope_and_curvature_are_those_of_the_sigmoid(z, y):
    x, row = at(z, y)
    sigma = 1 / (1 + math.exp(-z))
    loss = -math.log(sigma if y else 1 - sigma)
    assert PROBLEM.value(x, row)[0] == pytest.approx(loss, rel=1e-14)
    assert PROBLEM.gradient(x, row)[0, 0] == pytest.approx(sigma - y, rel=1e-14)
    assert PROBLEM.hessian(x, row)[0, 0, 0] == pytest.approx(sigma * (1 - sigma), rel=1e-14)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("z", "y", "loss", "slope"),
    [(1000, 1, 0, 0), (1000, 0, 1000, 1), (-1000, 1, 1000, -1), (-1000, 0, 0, 0)],
)
def test_scores_of_a_thousand_are_exact(dtype, z, y, loss, slope):
    x, row = at(z, y, dtype)
    with np.errstate(over="raise", invalid="raise"):
        value, gradient = PROBLEM.value_and_gradient(x, row)
        assert PROBLEM.hessian(x, row).item() == 0
    assert (value.item(), gradient.item()) == (loss, slope)


def test_small_losses_keep_their_digits():
    x, row = at(50.0, 1)
    assert PROBLEM.value(*at(-50.0, 0))[0] == pytest.approx(math.exp(-50), rel=1e-14)
    assert PROBLEM.gradient(*at(-50.0, 0))[0, 0] == pytest.approx(math.exp(-50), rel=1e-13)
    assert PROBLEM.hessian(x, row)[0, 0, 0] == pytest.approx(math.exp(-50), rel=1e-13)


def test_prediction_is_the_sign_of_the_score():
    X = np.array([[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]])
    labels = PROBLEM.predict(np.array([[2.0, -3.0]]), X)
    assert labels.dtype == np.int64
    assert labels.tolist() == [[1, 0, 0]]
