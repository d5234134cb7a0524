import numpy as np
import pytest
from scipy.optimize import minimize

from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.problems import Circle
from rayfed.problems.base import Batch

ALPHA = 0.2
PROBLEM = Circle(alpha=ALPHA)


def batch(points):
    points = np.asarray(points, dtype=float)[None]
    n = points.shape[1]
    return Batch(points, np.zeros((1, n)), np.full((1, n), 1 / n), None)


# centre (1, 0), radius 2: the first is inside, the second on the circle, the others outside
POINTS = batch([[1.5, 0.0], [1.0, 2.0], [4.0, 0.0], [1.0, -3.0]])
X = np.array([[1.0, 0.0, 2.0]])


def test_value_and_gradient_by_hand():
    value, gradient = PROBLEM.value_and_gradient(X, POINTS)
    # 9 - 4 and 9 - 4, each with weight 1/4
    assert value == pytest.approx([0.2 * 4 + 0.8 * (5 + 5) / 4])
    # (p - c) is (3, 0) and (0, -3); the radius gains 2 r (alpha - 0.8 * 2/4)
    assert gradient[0] == pytest.approx([-2 * 0.8 * 3 / 4, 2 * 0.8 * 3 / 4, 4 * (0.2 - 0.4)])


def test_hessian_by_hand_where_a_point_is_on_the_circle():
    hessian = PROBLEM.hessian(X, POINTS)[0]
    np.testing.assert_allclose(hessian, np.diag([0.8, 0.8, 2 * (0.2 - 0.4)]))
    product = PROBLEM.hvp(X, np.array([[1.0, 2.0, 3.0]]), POINTS)[0]
    np.testing.assert_allclose(product, [0.8, 1.6, -1.2])


def test_the_sign_of_the_radius_does_not_matter():
    other = X * [1, 1, -1]
    assert PROBLEM.value(other, POINTS) == PROBLEM.value(X, POINTS)
    np.testing.assert_array_equal(PROBLEM.predict(other, POINTS.X), PROBLEM.predict(X, POINTS.X))


def test_it_predicts_how_far_outside_a_point_is():
    assert PROBLEM.predict(X, POINTS.X).tolist() == [[0, 0, 5, 5]]


def test_radius_zero_is_stationary_and_so_no_start():
    gradient = PROBLEM.gradient(np.array([[3.0, 1.0, 0.0]]), POINTS)[0]
    assert gradient[2] == 0
    assert gradient[:2].any()
    assert PROBLEM.default_init == "normal"
    radii = [PROBLEM.initial("normal", 2, 0, Key(seed, "init"))[2] for seed in range(20)]
    assert min(radii) > 0


def test_it_is_convex_in_the_squared_radius_and_not_in_the_radius():
    rng = np.random.default_rng(3)
    points = batch(rng.normal(size=(40, 2)))

    def value(c, square):
        return PROBLEM.value(np.array([[*c, np.sqrt(square)]]), points)[0]

    for _ in range(200):
        (a, b), (s, t) = rng.normal(size=(2, 2)), rng.uniform(0, 4, 2)
        middle = value((a + b) / 2, (s + t) / 2)
        assert middle <= (value(a, s) + value(b, t)) / 2 + 1e-12
    at = [PROBLEM.value(np.array([[0.0, 0.0, r]]), points)[0] for r in (-1.0, 0.0, 1.0)]
    assert at[1] > (at[0] + at[2]) / 2


def test_at_the_optimum_the_stated_share_is_outside():
    """alpha / (1 - alpha) of 400 points is 100."""
    points = batch(np.random.default_rng(1).normal([3.0, -1.0], size=(400, 2)))

    def of_square(z):
        return PROBLEM.value(np.array([[z[0], z[1], np.sqrt(max(z[2], 0.0))]]), points)[0]

    options = {"xatol": 1e-9, "fatol": 1e-13, "maxiter": 5000, "maxfev": 5000}
    found = minimize(of_square, [0.0, 0.0, 1.0], method="Nelder-Mead", options=options).x
    outside = ((points.X[0] - found[:2]) ** 2).sum(axis=1) > found[2] * (1 + 1e-6)
    # up to the three points that the circle goes through
    assert abs(outside.sum() - 100) <= 3
    assert found[:2] == pytest.approx([3.0, -1.0], abs=0.2)


def test_three_features_make_a_sphere():
    assert Circle().size(3, 0) == 4
    one = batch([[0.0, 0.0, 3.0]])
    assert PROBLEM.value(np.array([[0.0, 0.0, 0.0, 1.0]]), one) == pytest.approx([0.2 + 0.8 * 8])


def test_an_intercept_is_refused():
    with pytest.raises(ScenarioError, match=r"intercept: a circle has none"):
        Circle(intercept=True)
