"""Delays: quantiles by hand, means by integrating the quantiles, bits that do not depend on K."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from rayfed.core.errors import ScenarioError
from rayfed.population import (
    Bimodal,
    ConstantDelay,
    Exponential,
    Gamma,
    Lognormal,
    Pareto,
    Population,
    ShiftedExponential,
    UniformDelay,
    Weibull,
)
from rayfed.population.delay.distributions import MOST_SIGMA

SCIPY = {
    UniformDelay(mean_s=2.0, spread=0.25): stats.uniform(1.5, 1.0),
    Exponential(mean_s=5.0): stats.expon(scale=5.0),
    Lognormal(mean_s=1.5, sigma=0.7): stats.lognorm(0.7, scale=1.5 * math.exp(-0.245)),
    Pareto(mean_s=3.0, shape=2.5): stats.pareto(2.5, scale=1.8),
    Gamma(mean_s=4.0, shape=0.5): stats.gamma(0.5, scale=8.0),
    Weibull(mean_s=1.0, shape=2.0): stats.weibull_min(2.0, scale=2 / math.sqrt(math.pi)),
    ShiftedExponential(mean_s=3.0, floor_s=1.0): stats.expon(1.0, scale=2.0),
}
"""Delays, and the same distributions from scipy with parameters worked out by hand."""
DELAYS = [ConstantDelay(mean_s=3.0), Bimodal(mean_s=1.0, slow=0.25, factor=4.0), *SCIPY]
each_delay = pytest.mark.parametrize("delay", DELAYS, ids=lambda delay: delay.name)


def test_constant_has_one_value():
    assert ConstantDelay(mean_s=3.0).quantile(np.array([0.001, 0.999])).tolist() == [3.0, 3.0]


def test_uniform_is_linear_between_its_ends():
    seconds = UniformDelay(mean_s=2.0, spread=0.25).quantile(np.array([0.0, 0.25, 0.5, 1.0]))
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


def test_lognormal_takes_time_up_to_the_largest_spread():
    u = np.array([2.0**-54, 1 - 2.0**-53])  # the least and the largest draw
    assert Lognormal(sigma=MOST_SIGMA).quantile(u).min() > 0
    assert Lognormal(sigma=MOST_SIGMA + 2).quantile(u).min() == 0


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


@pytest.mark.parametrize("delay", SCIPY, ids=lambda delay: delay.name)
def test_quantiles_and_mean_are_those_of_scipy(delay):
    u = np.array([1e-6, 0.1, 0.5, 0.9, 1 - 1e-6])
    np.testing.assert_allclose(delay.quantile(u), SCIPY[delay].ppf(u), rtol=1e-9)
    assert delay.mean() == pytest.approx(SCIPY[delay].mean())


@pytest.mark.parametrize("correlation", [0.0, 0.8, 1.0])
@pytest.mark.parametrize("delay", SCIPY, ids=lambda delay: delay.name)
def test_clients_of_a_round_are_a_sample_of_the_distribution(delay, correlation):
    named = type(delay)(**{**vars(delay), "correlation": correlation})
    seconds = Population(4000, 1, named).seconds_per_step(np.arange(4000), 3, 0)
    assert stats.kstest(seconds, SCIPY[delay].cdf).pvalue > 0.005


def test_bimodal_has_a_quarter_of_slow_steps_and_the_overall_mean():
    seconds = Bimodal(mean_s=1.75, slow=0.25, factor=4.0).quantile(
        np.array([0.01, 0.74, 0.76, 0.99])
    )
    assert seconds.tolist() == [1.0, 1.0, 4.0, 4.0]  # 0.75 of 1 s and 0.25 of 4 s make 1.75 s


def test_with_full_correlation_the_slow_clients_are_always_the_same():
    population = Population(1000, 0, Bimodal(mean_s=1.9, slow=0.1, factor=10.0, correlation=1.0))
    ids = np.arange(1000)
    first, later = (population.seconds_per_step(ids, r, a) for r, a in ((1, 0), (70, 3)))
    assert first.tolist() == later.tolist() == population.mean_seconds_per_step(ids).tolist()
    assert stats.binomtest(int((first > 1.5).sum()), 1000, 0.1).pvalue > 0.01


def test_slow_clients_stay_slow_for_a_while():
    """With two states the chance to stay slow follows from the normal scores' correlation."""
    population = Population(20_000, 0, Bimodal(mean_s=1.0, slow=0.2, factor=5.0, correlation=0.9))
    slow = [population.seconds_per_step(np.arange(20_000), r, 0) > 1.0 for r in (5, 6)]
    cut = stats.norm.ppf(0.2)
    both = stats.multivariate_normal.cdf([cut, cut], cov=[[1, 0.9], [0.9, 1]])
    stayed = int((slow[0] & slow[1]).sum())
    assert stats.binomtest(stayed, 20_000, float(both)).pvalue > 0.01


def test_a_floor_above_the_mean_is_refused():
    with pytest.raises(ScenarioError, match="floor_s: found 2 above the mean_s 1; give a lower"):
        ShiftedExponential(mean_s=1.0, floor_s=2.0)


def test_a_delay_with_the_hook_of_earlier_versions_is_refused():
    with pytest.raises(ScenarioError, match="defines 'fixed_quantiles'; rename it to 'uniforms'"):
        type("Own", (Lognormal,), {"fixed_quantiles": lambda self, ids: None})
