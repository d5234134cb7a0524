"""The normaliser of SGD: sums of the coefficients that its gradients end with, by hand."""

import numpy as np
import pytest

from rayfed.solvers import SGD, Step

STEPS = np.array([7, 1, 3])


def test_plain_steps_count_once_each():
    assert SGD().normaliser(STEPS, round=1).tolist() == [7, 1, 3]


def test_momentum_has_the_published_norm():
    """(1 - rho^(tau - k)) / (1 - rho) over k; Wang et al. 2020, section 4.1."""
    rho = 0.9
    closed = [(t - rho * (1 - rho**t) / (1 - rho)) / (1 - rho) for t in STEPS]
    found = SGD(momentum=rho).normaliser(STEPS, round=1)
    assert found == pytest.approx(closed, rel=1e-12)
    assert found[0] == pytest.approx(23.04672, abs=5e-6)
    # three steps: coefficients 1 + rho + rho^2, 1 + rho, 1
    assert found[2] == pytest.approx(2.71 + 1.9 + 1, rel=1e-12)


def test_the_proximal_term_has_the_published_norm():
    alpha = 0.05
    found = SGD(lr=0.1, mu=0.5).normaliser(STEPS, round=1)
    assert found == pytest.approx([(1 - (1 - alpha) ** t) / alpha for t in STEPS], rel=1e-12)
    assert found[0] == pytest.approx(6.033254, abs=1e-6)


def test_momentum_and_proximal_term_do_not_count_twice():
    """With tau 7, rho 0.9, alpha 0.05 the sum is 20.73, not the 25.72 of double counting."""
    found = SGD(lr=0.1, mu=0.5, momentum=0.9).normaliser(STEPS, round=1)
    assert found[0] == pytest.approx(20.73, abs=0.005)
    # two steps: c = 1, s = 1; c = 1.9, s = 0.95 + 1.9
    two = SGD(lr=0.1, mu=0.5, momentum=0.9).normaliser(np.array([2]), round=1)
    assert two.item() == pytest.approx(2.85, rel=1e-12)


def test_the_proximal_norm_uses_the_learning_rate_of_the_round():
    solver = SGD(lr=Step(start=0.2, factor=0.5, rounds=(3,)), mu=0.5)
    later = solver.normaliser(STEPS, round=3)
    assert later.tolist() == SGD(lr=0.1, mu=0.5).normaliser(STEPS, round=1).tolist()
    assert solver.normaliser(STEPS, round=1)[0] < later[0]


class Longer(SGD):
    """Twice the steps."""

    def direction(self, g, pull, buffers, step):
        return 2 * super().direction(g, pull, buffers, step)


@pytest.mark.parametrize(("solver", "rate"), [(SGD(lr=0.1), 0.1), (Longer(lr=0.1), 0.2)])
def test_steps_on_a_parabola_shrink_its_distance(solver, rate):
    """F(x) = (x - 1)^2 / 2: a step of length a multiplies x - 1 by 1 - a."""

    def oracle(x):
        return 0.5 * ((x - 1) ** 2)[:, 0], x - 1

    steps = np.array([3, 3])
    local = solver.run([(2, oracle)] * 3, np.array([[3.0], [0.0]]), steps, round=1)
    assert local.x[:, 0] == pytest.approx([1 + 2 * (1 - rate) ** 3, 1 - (1 - rate) ** 3])
