"""Bernoulli availability: draws that stay put, changes against a search period by period."""

import numpy as np
import pytest

from rayfed.availability import Bernoulli
from rayfed.population.availability import Always, PopulationInfo

SIX = PopulationInfo(count=6, seed=0)
IDS = np.arange(6)


def there(availability, t=0.0, round=1, ids=IDS, population=SIX):
    return availability.available(ids, t, round, population)


def test_always_never_changes():
    assert there(Always(), t=1e9, round=7).all()
    assert np.isinf(Always().next_change(IDS, 3.0, SIX)).all()


@pytest.mark.parametrize("bernoulli", [Bernoulli(p=0.3), Bernoulli(p=0.3, period_s=2.0)])
def test_bernoulli_has_its_probability_in_every_round(bernoulli):
    population = PopulationInfo(count=10_000, seed=1)
    for k in range(3):
        share = there(
            bernoulli, t=2.0 * k, round=k, ids=np.arange(10_000), population=population
        ).mean()
        assert abs(share - 0.3) < 4 * np.sqrt(0.3 * 0.7 / 10_000)


def test_bernoulli_draws_are_independent_from_round_to_round():
    ids, population = np.arange(10_000), PopulationInfo(count=10_000, seed=1)
    both = there(Bernoulli(p=0.5), round=1, ids=ids, population=population) & there(
        Bernoulli(p=0.5), round=2, ids=ids, population=population
    )
    assert abs(both.mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 10_000)


def test_bernoulli_by_round_ignores_the_time_and_by_period_the_round():
    by_round, by_period = Bernoulli(p=0.5), Bernoulli(p=0.5, period_s=1.0)
    ids = np.arange(200)
    assert (there(by_round, t=0, ids=ids) == there(by_round, t=50, ids=ids)).all()
    assert (there(by_period, round=1, ids=ids) == there(by_period, round=2, ids=ids)).all()
    assert (there(by_period, t=0.0, ids=ids) == there(by_period, t=0.99, ids=ids)).all()
    assert (there(by_period, t=0.0, ids=ids) != there(by_period, t=1.0, ids=ids)).any()


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_a_certain_bernoulli_never_changes(p):
    bernoulli = Bernoulli(p=p, period_s=1.0)
    assert (there(bernoulli, t=3.0) == bool(p)).all()
    assert np.isinf(bernoulli.next_change(IDS, 3.0, SIX)).all()


@pytest.mark.parametrize("t", [0.0, 1.2, 7.5, 11.9])
def test_bernoulli_change_is_the_first_period_that_differs(t):
    bernoulli, ids = Bernoulli(p=0.9, period_s=0.5), np.arange(40)
    population = PopulationInfo(count=40, seed=5)
    change = bernoulli.next_change(ids, t, population)
    now = there(bernoulli, t=t, ids=ids, population=population)
    for i in ids:
        start = (int(t / 0.5) + 1) * 0.5
        while there(bernoulli, t=start, ids=ids[i : i + 1], population=population)[0] == now[i]:
            start += 0.5
        assert change[i] == start


def test_any_order_of_questions_gets_the_same_answers():
    bernoulli = Bernoulli(p=0.5, period_s=1.0)
    ids = np.arange(50)
    forward = [there(bernoulli, t=t, ids=ids).tolist() for t in range(20)]
    backward = [there(bernoulli, t=t, ids=ids[::-1])[::-1].tolist() for t in reversed(range(20))]
    assert forward == backward[::-1]


def test_another_seed_draws_other_clients():
    ids = np.arange(100)
    one, two = (
        there(Bernoulli(p=0.5), ids=ids, population=PopulationInfo(100, seed)) for seed in (0, 1)
    )
    assert (one != two).any()
