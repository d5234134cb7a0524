"""The multilayer perceptron: a network small enough to do by hand, sizes, the start."""

import numpy as np

from rayfed.core.rng import Key
from rayfed.problems.base import Batch
from rayfed.problems.mlp import MLP
from rayfed.problems.softmax import SoftmaxRegression


def test_a_network_by_hand():
    # one input and the column of ones, two hidden units, two classes
    first = [[2.0, -1.0], [1.0, 0.5]]  # the second row is the bias
    second = [[1.0, 0.0], [0.0, 3.0], [0.0, np.log(3.0) + 7.0]]  # the third row is the bias
    x = np.concatenate([np.ravel(first), np.ravel(second)])[None]
    row = Batch(np.array([[[3.0, 1.0]]]), np.array([[0]]), np.ones((1, 1)), None)
    # hidden: relu(2*3 + 1) = 7, relu(-3 + 0.5) = 0; scores: 7 and log 3 + 7 -> 1/4 and 3/4
    problem = MLP(hidden=(2,))
    value, gradient = problem.value_and_gradient(x, row)
    np.testing.assert_allclose(value, [np.log(4.0)], rtol=1e-14)
    slope = np.array([-0.75, 0.75])
    hidden = np.array([slope @ second[0], 0.0])  # the second unit is off
    expected = [np.outer([3.0, 1.0], hidden), np.outer([7.0, 0.0, 1.0], slope)]
    np.testing.assert_allclose(
        gradient[0], np.concatenate([np.ravel(e) for e in expected]), rtol=1e-13
    )
    assert problem.predict(x, row.X).tolist() == [[1]]


def test_biases_are_the_last_row_of_each_layer():
    problem = MLP(hidden=(2, 3))
    p = problem.size(4, 2)
    assert p == 4 * 2 + (2 + 1) * 3 + (3 + 1) * 2
    assert problem.intercepts(4, p).tolist() == [6, 7, 14, 15, 16, 23, 24]
    assert MLP(hidden=(2, 3), intercept=False).size(4, 2) == 4 * 2 + 2 * 3 + 3 * 2


def test_the_start_has_the_spread_of_he_and_no_biases():
    problem = MLP(hidden=(200,))
    x = problem.initial("normal", 101, 50, Key(3, "init"))
    first, last = x[: 101 * 200].reshape(101, 200), x[101 * 200 :].reshape(201, 50)
    assert not first[-1].any()
    assert not last[-1].any()
    for weights, inputs in ((first[:-1], 100), (last[:-1], 200)):
        mean_square = np.mean(weights**2) * inputs / 2  # 1, with deviation sqrt(2 / count)
        assert abs(mean_square - 1) < 4 * np.sqrt(2 / weights.size)


def test_the_uniform_start_is_that_of_pytorch_biases_included():
    problem = MLP(hidden=(64, 30))
    p = problem.size(785, 10)
    reach = problem.reach(785, p)
    inputs = np.repeat([784, 64, 30], [785 * 64, 65 * 30, 31 * 10])
    np.testing.assert_allclose(reach, inputs**-0.5, rtol=1e-14)


def test_where_every_unit_is_on_the_network_is_linear():
    rng = np.random.default_rng(6)
    X, y = rng.random((1, 8, 3)), rng.integers(0, 4, (1, 8))
    rows = Batch(X, y, np.full((1, 8), 1 / 8), None)
    first, last = rng.random((3, 5)), rng.standard_normal((5, 4))
    x = np.concatenate([first.ravel(), last.ravel()])[None]
    network, linear = MLP(hidden=(5,), intercept=False), SoftmaxRegression(intercept=False)
    flat = (first @ last).T.reshape(1, -1)  # softmax regression holds its model class by class
    np.testing.assert_allclose(network.value(x, rows), linear.value(flat, rows), rtol=1e-13)
    np.testing.assert_array_equal(network.predict(x, X), linear.predict(flat, X))
    slope = linear.gradient(flat, rows).reshape(4, 3).T
    expected = np.concatenate([(slope @ last.T).ravel(), (first.T @ slope).ravel()])
    np.testing.assert_allclose(network.gradient(x, rows)[0], expected, rtol=1e-11, atol=1e-15)
