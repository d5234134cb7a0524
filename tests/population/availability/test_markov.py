"""Clients and regions that come and go: stays, shares and independence, against their laws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.population import Markov, Outages, PopulationInfo
from rayfed.population.availability.points import Points
from rayfed.testing.checks.availability import check_pure, require_announced_changes

MANY = PopulationInfo(count=4000, seed=1)
IDS = np.arange(4000)
TIMES = st.floats(0, 1e7)


def test_points_are_a_poisson_process():
    """The gap across any time is longer than a mean gap: its two halves are exponential each."""
    points = Points(Key(0, "test"), 5.0)
    for t in (0.0, 20.0, 1234.5):  # the start, the end of a cell, and somewhere
        before, after = t - points.last(IDS, t), points.first(IDS, t) - t
        assert stats.kstest(before, stats.expon(scale=5.0).cdf).pvalue > 0.005
        assert stats.kstest(after, stats.expon(scale=5.0).cdf).pvalue > 0.005
        assert abs(stats.pearsonr(before, after).statistic) < 4 / np.sqrt(len(IDS))


def test_numbers_of_points_are_poisson():
    points = Points(Key(1, "test"), 2.0)
    inside = [points._cell(IDS, np.full(len(IDS), cell)) for cell in (0, 1)]  # of 8 s each
    numbers = [np.isfinite(cell).sum(axis=1) for cell in inside]
    for counts in numbers:
        observed = np.bincount(np.minimum(counts, 10), minlength=11)
        expected = stats.poisson(4.0).pmf(np.arange(11))
        expected[-1] = 1 - expected[:-1].sum()
        assert stats.chisquare(observed, 4000 * expected).pvalue > 0.005
    assert abs(stats.pearsonr(*numbers).statistic) < 4 / np.sqrt(4000)


@pytest.mark.parametrize(("on", "off"), [(600.0, 200.0), (5.0, 500.0)])
def test_clients_are_there_in_their_share_of_the_time_from_the_start(on, off):
    markov = Markov(mean_on_s=on, mean_off_s=off)
    for t in (0.0, 3.0, 1e6):
        there = int(markov.available(IDS, t, 1, MANY).sum())
        assert stats.binomtest(there, 4000, on / (on + off)).pvalue > 0.005


def test_stays_are_exponential_with_the_stated_means():
    markov = Markov(mean_on_s=30.0, mean_off_s=70.0)
    for t in (0.0, 777.0):
        there = markov.available(IDS, t, 1, MANY)
        rest = markov.next_change(IDS, t, MANY) - t
        assert stats.kstest(rest[there], stats.expon(scale=30.0).cdf).pvalue > 0.005
        assert stats.kstest(rest[~there], stats.expon(scale=70.0).cdf).pvalue > 0.005


def test_who_is_there_is_forgotten_at_the_rate_of_the_chain():
    """P(on at t | on at 0) = p + (1 - p) exp(-(1/on + 1/off) t), with the stationary p."""
    markov, t = Markov(mean_on_s=30.0, mean_off_s=70.0), 15.0
    first, later = (markov.available(IDS, time, 1, MANY) for time in (0.0, t))
    both = 0.3 * (0.3 + 0.7 * np.exp(-(1 / 30 + 1 / 70) * t))
    assert stats.binomtest(int((first & later).sum()), 4000, both).pvalue > 0.005


@settings(max_examples=8, deadline=None)
@given(st.lists(st.tuples(TIMES, st.integers(1, 9)), min_size=1, max_size=4), st.integers(1, 3000))
def test_any_order_of_questions_gets_the_same_answers(questions, mean_on_s):
    check_pure(Markov(mean_on_s=mean_on_s, mean_off_s=40.0), questions)
    check_pure(Outages(regions=3, mean_up_s=mean_on_s, mean_down_s=40.0), questions)


@settings(max_examples=4, deadline=None)
@given(TIMES, st.floats(0.5, 3000))
def test_a_change_comes_when_it_is_said_to(time_s, mean_off_s):
    require_announced_changes(Markov(mean_on_s=10.0, mean_off_s=mean_off_s), time_s, 1)


@pytest.mark.parametrize("t", [1e12, 1e15])
def test_late_on_the_clock_searches_end_and_go_on(t):
    change = Markov(mean_on_s=1e-3, mean_off_s=1e-3).next_change(np.arange(5), t, MANY)
    assert (change > t).all()


def test_regions_fail_together_and_on_their_own():
    outages = Outages(regions=4, mean_up_s=50.0, mean_down_s=50.0)
    region = outages.region(IDS, MANY)
    assert np.bincount(region).tolist() == [1000] * 4
    up = np.array([outages.available(IDS, 500.0 * k, 1, MANY) for k in range(120)])
    of_region = np.array([up[:, region == r][:, 0] for r in range(4)])
    assert all((up[:, region == r] == of_region[r][:, None]).all() for r in range(4))
    assert np.abs(np.corrcoef(of_region)[np.triu_indices(4, 1)]).max() < 4 / np.sqrt(120)
    assert stats.binomtest(int(of_region.sum()), 480, 0.5).pvalue > 0.005
    change = outages.next_change(IDS, 3.0, MANY)
    assert len(np.unique(change)) == 4


def test_more_regions_than_clients_are_refused():
    with pytest.raises(ScenarioError, match="found 4 regions of 3 clients; give fewer"):
        Outages(regions=4).check(PopulationInfo(3, 0))
