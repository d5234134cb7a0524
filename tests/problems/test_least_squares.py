"""Least squares: values by hand, published normalisations, the expansion around a start."""

import numpy as np
import pytest

from rayfed.problems import LeastSquares
from rayfed.problems.base import Batch
from rayfed.problems.objective import Objective


def batch(X, y, w=1.0, ridge=None):
    y = np.asarray(y, dtype=float)
    return Batch(np.asarray(X, dtype=float), y, np.full(y.shape, w), ridge)


def test_value_gradient_and_hessian_by_hand():
    # residuals at (2, 1): 1*2 + 2*1 - 1 = 3 and 3*2 - 1*1 - 7 = -2; weights 1/2
    rows = batch([[[1, 2], [3, -1]]], [[1, 7]], w=0.5)
    x = np.array([[2.0, 1.0]])
    problem = LeastSquares(intercept=False)
    assert problem.value(x, rows).tolist() == [(9 + 4) / 4]
    assert problem.gradient(x, rows).tolist() == [[(3 - 6) / 2, (6 + 2) / 2]]
    np.testing.assert_allclose(problem.hessian(x, rows)[0], [[5.0, -0.5], [-0.5, 2.5]], rtol=1e-15)
    assert problem.predict(x, rows.X).tolist() == [[4.0, 5.0]]


def test_without_half_everything_doubles():
    rows = batch([[[1, 2], [3, -1]]], [[1, 7]], w=0.5)
    x = np.array([[2.0, 1.0]])
    half, whole = LeastSquares(), LeastSquares(half=False)
    assert whole.value(x, rows).tolist() == [2 * 3.25]
    assert whole.gradient(x, rows).tolist() == [[-3.0, 8.0]]
    np.testing.assert_array_equal(whole.hessian(x, rows), 2 * half.hessian(x, rows))
    np.testing.assert_array_equal(whole.hvp(x, x, rows), 2 * half.hvp(x, x, rows))


def test_the_sum_of_squares_over_the_number_of_clients_is_a_setting():
    """F = ||A w - b||^2 / N over stacked rows, local gradient A'(A w - b) at half the step."""
    rng = np.random.default_rng(0)
    A, b, w = rng.standard_normal((4, 3, 5)), rng.standard_normal((4, 3)), rng.standard_normal(5)
    problem = LeastSquares(intercept=False, half=False, divide_by="none", weighting="uniform")
    objective = Objective(problem, clients=4, samples=12, features=5)
    sizes = np.full(4, 3)
    rows = Batch(A, b, np.repeat(objective.per_row(sizes)[:, None], 3, axis=1), None)
    residual = np.concatenate(list(A)) @ w - np.concatenate(list(b))
    weights = objective.weights(sizes)
    F = weights @ problem.value(w[None], rows) / objective.normaliser(weights.sum(), 4)
    np.testing.assert_allclose(F, residual @ residual / 4, rtol=1e-13)
    local = np.stack([Ai.T @ (Ai @ w - bi) for Ai, bi in zip(A, b, strict=True)])
    np.testing.assert_allclose(0.5 * problem.gradient(w[None], rows), local, rtol=1e-12)


def test_the_quadratic_of_the_second_order_studies_is_a_setting():
    """f_i = 1/2 (||A_i x - y_i||^2 / n + gamma ||x||^2 / N), F = sum_i f_i."""
    rng = np.random.default_rng(1)
    sizes, gamma = np.array([2, 5, 3]), 0.7
    A = [rng.standard_normal((n, 4)) for n in sizes]
    y = [rng.standard_normal(n) for n in sizes]
    x = rng.standard_normal(4)
    problem = LeastSquares(
        intercept=False, divide_by="all-samples", l2=gamma, l2_per="population", weighting="sum"
    )
    objective = Objective(problem, clients=3, samples=10, features=4)
    values = []
    for i in range(3):
        w = np.full((1, sizes[i]), objective.per_row(sizes[i : i + 1])[0])
        rows = Batch(A[i][None], y[i][None], w, objective.ridge(sizes[i : i + 1], 4))
        values.append(problem.value(x[None], rows)[0])
    expected = [
        0.5 * (((a @ x - b) ** 2).sum() / 10 + gamma * x @ x / 3) for a, b in zip(A, y, strict=True)
    ]
    np.testing.assert_allclose(values, expected, rtol=1e-13)
    weights = objective.weights(sizes)
    F = weights @ np.array(values) / objective.normaliser(weights.sum(), 3)
    np.testing.assert_allclose(F, sum(expected), rtol=1e-13)


@pytest.mark.parametrize("half", [True, False])
def test_the_expansion_finds_an_interpolating_optimum_to_the_last_digits(half):
    rng = np.random.default_rng(2)
    A, truth = rng.standard_normal((1, 40, 6)), 1e3 * rng.standard_normal(6)
    rows = Batch(A, (A[0] @ truth)[None], np.full((1, 40), 1 / 40), None)
    problem = LeastSquares(intercept=False, half=half)
    x = np.zeros((1, 6))
    for _ in range(20):  # rounds of ten steps, each from where the last one ended
        oracle = problem.near(x.copy(), rows)
        for _ in range(10):
            x -= (0.5 if half else 0.25) * oracle(x)[1]
    np.testing.assert_allclose(x[0], truth, rtol=1e-14)
    assert problem.value(x, rows)[0] < 1e-22


def test_labels_given_as_whole_numbers_keep_single_precision():
    rows = Batch(
        np.ones((1, 2, 1), np.float32), np.array([[0, 1]]), np.ones((1, 2), np.float32), None
    )
    value, gradient = LeastSquares().value_and_gradient(np.zeros((1, 1), np.float32), rows)
    assert (value.dtype, gradient.dtype) == (np.float32, np.float32)
    assert value.tolist() == [0.5]
    assert LeastSquares().value(np.zeros((1, 1), np.float32), rows).dtype == np.float32
