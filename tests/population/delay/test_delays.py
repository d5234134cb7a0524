"""Delays: quantiles by hand, means by integrating the quantiles, bits that do not depend on K."""

import math

import numpy as np
import pytest
from scipy.integrate import quad

from rayfed.population.delay import Constant, Exponential, Lognormal, Uniform

DELAYS = [
    Constant(mean_s=3.0),
    Uniform(mean_s=2.0, spread=0.25),
    Exponential(mean_s=5.0),
    Lognormal(mean_s=1.5, sigma=0.7),
]
each_delay = pytest.mark.parametrize("delay", DELAYS, ids=lambda delay: delay.name)


def test_constant_has_one_value():
    assert Constant(mean_s=3.0).quantile(np.array([0.001, 0.999])).tolist() == [3.0, 3.0]


def test_uniform_is_linear_between_its_ends():
    seconds = Uniform(mean_s=2.0, spread=0.25).quantile(np.array([0.0, 0.25, 0.5, 1.0]))
    np.testing.assert_allclose(seconds, [1.5, 1.75, 2.0, 2.5])


def test_exponential_median_is_mean_times_log_two():
    seconds = Exponential(mean_s=5.0).quantile(np.array([0.5, 1 - math.exp(-2)]))
    np.testing.assert_allclose(seconds, [5.0 * math.log(2), 10.0])


def test_lognormal_median_lies_below_its_mean():
    u = np.array([0.5, 0.8413447460685429])  # Phi(0), Phi(1)
    median = 1.5 * math.exp(-(0.7**2) / 2)
    np.testing.assert_allclose(
        Lognormal(mean_s=1.5, sigma=0.7).quantile(u), [median, median * math.exp(0.7)]
    )


def test_lognormal_without_spread_is_constant():
    seconds = Lognormal(mean_s=2.0, sigma=0.0).quantile(np.array([0.1, 0.9]))
    np.testing.assert_allclose(seconds, 2.0)


@each_delay
def test_mean_is_the_integral_of_the_quantile(delay):
    integral, _ = quad(lambda u: float(delay.quantile(np.array([u]))[0]), 0, 1, limit=200)
    assert integral == pytest.approx(delay.mean(), rel=1e-6)


@each_delay
def test_quantile_rises_and_is_never_negative(delay):
    seconds = delay.quantile(np.linspace(1e-9, 1 - 1e-9, 1001))
    assert (np.diff(seconds) >= 0).all()
    assert (seconds >= 0).all()
    assert np.isfinite(seconds).all()


@each_delay
def test_bits_do_not_depend_on_the_length(delay):
    u = np.random.default_rng(0).uniform(size=1000)
    whole = delay.quantile(u)
    alone = np.concatenate([delay.quantile(u[i : i + 1]) for i in range(len(u))])
    assert whole.tobytes() == alone.tobytes()
