"""Softmax regression: against its own definition, and against logistic regression."""

import numpy as np
import pytest

from rayfed.problems import LogisticRegression, SoftmaxRegression
from rayfed.problems.base import Batch

PROBLEM = SoftmaxRegression(intercept=False)


def test_value_and_gradient_by_hand():
    # scores of the row (1, 2): class 0 gets log 3, class 1 gets 0 -> probabilities 3/4 and 1/4
    x = np.array([[np.log(3.0), 0.0, 0.0, 0.0]])
    row = Batch(np.array([[[1.0, 2.0]]]), np.array([[1]]), np.full((1, 1), 0.5), None)
    value, gradient = PROBLEM.value_and_gradient(x, row)
    np.testing.assert_allclose(value, [0.5 * np.log(4.0)], rtol=1e-15)
    np.testing.assert_allclose(gradient, [[0.375, 0.75, -0.375, -0.75]], rtol=1e-15)


def test_two_classes_are_logistic_regression_in_the_difference():
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((2, 9, 3)), rng.integers(0, 2, (2, 9))
    rows = Batch(X, y, rng.random((2, 9)), None)
    x = rng.standard_normal((2, 3))
    pair = np.concatenate([np.zeros_like(x), x], axis=1)
    value, gradient = PROBLEM.value_and_gradient(pair, rows)
    logistic = LogisticRegression(intercept=False)
    np.testing.assert_allclose(value, logistic.value(x, rows), rtol=1e-13)
    np.testing.assert_allclose(gradient[:, 3:], logistic.gradient(x, rows), rtol=1e-12)
    np.testing.assert_allclose(gradient[:, :3], -gradient[:, 3:], rtol=1e-12)
    hessian = PROBLEM.hessian(pair, rows)
    np.testing.assert_allclose(hessian[:, 3:, 3:], logistic.hessian(x, rows), rtol=1e-12)


def test_hessian_is_the_kronecker_sum_of_its_definition():
    rng = np.random.default_rng(4)
    X, y, w = rng.standard_normal((1, 5, 2)), rng.integers(0, 3, (1, 5)), rng.random((1, 5))
    x = rng.standard_normal((1, 6))
    expected = np.zeros((6, 6))
    for a, weight in zip(X[0], w[0], strict=True):
        e = np.exp(x.reshape(3, 2) @ a)
        q = e / e.sum()
        expected += weight * np.kron(np.diag(q) - np.outer(q, q), np.outer(a, a))
    rows = Batch(X, y, w, None)
    np.testing.assert_allclose(PROBLEM.hessian(x, rows)[0], expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_scores_of_a_thousand_are_exact(dtype):
    x = np.array([[1000.0, 0.0, -1000.0]], dtype)  # scores +-1000 on the rows (1) and (-1)
    X = np.array([[[1.0], [1.0], [-1.0]]], dtype)
    rows = Batch(X, np.array([[0, 2, 1]]), np.ones((1, 3), dtype), None)
    with np.errstate(over="raise", invalid="raise"):
        value, gradient = PROBLEM.value_and_gradient(x, rows)
        hessian = PROBLEM.hessian(x, rows)
    assert value.tolist() == [0 + 2000 + 1000]
    assert gradient.tolist() == [[1.0, 1.0, -2.0]]
    assert not hessian.any()


def test_prediction_is_the_first_class_of_largest_score():
    x = np.array([[0.0, 1.0, 1.0]])  # one feature, three classes
    labels = PROBLEM.predict(x, np.array([[[1.0], [-1.0], [0.0]]]))
    assert labels.dtype == np.int64
    assert labels.tolist() == [[1, 0, 0]]
