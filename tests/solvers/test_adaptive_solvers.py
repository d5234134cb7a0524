"""Adam and Adagrad at the client, step by step by hand."""

import numpy as np
import pytest

from rayfed.solvers import Adagrad, Adam


def directions(solver, gradients, pull=None):
    """Feed gradients to a solver with fresh buffers, return what it would step along."""
    kept = [np.zeros((1, 1)) for _ in range(solver.buffers())]
    out = []
    for step, g in enumerate(gradients, 1):
        pulled = None if pull is None else np.array([[pull]])
        out.append(solver.direction(np.array([[g]]), pulled, kept, step).item())
    return out


def test_adams_first_step_is_the_sign_and_the_second_weighs_the_moments():
    solver = Adam(beta1=0.5, beta2=0.75, epsilon=1e-12)
    # m = 0.5 g1 = 1, over 1/2: 2; v = 4/4 = 1, over 1/4: 4; 2 / 2 = 1
    # m = 0.5 + 0.5 (-4) = -1.5, over 3/4: -2; v = 0.75 + 16/4 = 4.75, over 7/16: 76/7
    first, second = directions(solver, [2.0, -4.0])
    assert first == pytest.approx(1.0)
    assert second == pytest.approx(-2.0 / np.sqrt(76 / 7))


def test_adagrad_divides_by_the_root_of_the_sum_of_squares():
    assert directions(Adagrad(epsilon=1e-12), [3.0, -4.0]) == pytest.approx([1.0, -0.8])


@pytest.mark.parametrize("solver", [Adam(epsilon=1.0), Adagrad(epsilon=1.0)])
def test_the_constant_is_outside_the_root_and_the_proximal_pull_inside_the_gradient(solver):
    # both see g = 1 + 2 = 3 first, whose root of squares is 3: 3 / (3 + 1)
    assert directions(solver, [1.0], pull=2.0) == pytest.approx([0.75])


@pytest.mark.parametrize("solver", [Adam(), Adagrad()])
def test_no_gradient_is_no_step(solver):
    assert directions(solver, [0.0, 0.0]) == [0.0, 0.0]
