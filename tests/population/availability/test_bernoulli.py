"""Bernoulli availability: draws that stay put, and every mode of probabilities by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.population import Always, Bernoulli, PopulationInfo
from rayfed.population.availability.bernoulli import Chance
from rayfed.testing.checks.availability import POPULATION, check_pure, require_announced_changes

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


def test_an_outage_in_episodes_leaves_other_rounds_to_everybody():
    outage, rare = Bernoulli(p=0, start=3, end=4, every=5), Bernoulli(p=0.4, start=3, end=4)
    assert [there(outage, round=r).any() for r in range(1, 10)] == [
        True, True, False, False, True, True, True, False, False,
    ]  # fmt: skip
    assert [outage.chance(IDS, 0.0, r, SIX).tolist() for r in (2, 3)] == [[1] * 6, [0] * 6]
    assert outage.by_round
    assert np.isinf(outage.next_change(IDS, 0.0, SIX)).all()
    ids = np.arange(200)
    assert there(rare, round=2, ids=ids).all()
    drawn = there(Bernoulli(p=0.4), round=3, ids=ids)
    assert (there(rare, round=3, ids=ids) == drawn).all()
    assert not drawn.all()
    with pytest.raises(ScenarioError, match="period_s: found 2, but start and end count rounds"):
        Bernoulli(end=3, period_s=2.0)


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


HOLDS = np.array([[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]], dtype=bool)
THREE = PopulationInfo(3, 0, sizes=np.array([10, 40, 20]), holds=HOLDS)


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("rows", [0.5, 1.0, math.sqrt(0.5)]),  # sqrt(n / 40)
        ("few-rows", [1.0, 0.5, math.sqrt(0.5)]),  # sqrt(10 / n)
        ("lowest-label", [0.5, 0.5 + 0.5 / 3, 0.5 + 1 / 3]),  # lowest labels 0, 1 and 2 of 0 to 3
        ("labels", [0.5 + 0.125, 0.75, 0.75]),  # 1, 2 and 2 labels of 4
    ],
)
def test_probabilities_by_data_and_a_bias_of_one_half(by, expected):
    table = Chance(by=by, bias=0.5).table(np.arange(3), THREE)
    np.testing.assert_allclose(table[:, 0], expected)
    assert (Chance(by=by, bias=0.0).table(np.arange(3), THREE) == 1.0).all()


def test_labels_take_turns_over_a_cycle():
    table = Chance(by="label-turns", bias=0.75, cycle=8).table(np.arange(3), THREE)
    low, sure = [0.25], [1.0]
    assert table.tolist() == [
        sure * 2 + low * 6,  # label 0, in the first quarter
        low * 2 + sure * 4 + low * 2,
        low * 4 + sure * 4,
    ]


def test_lognormal_luck_is_relative_to_the_luckiest():
    population = PopulationInfo(2000, 4)
    p = Chance(by="lognormal", bias=0.5).table(np.arange(2000), population)[:, 0]
    assert p.max() == 1.0
    logs = np.log(p) / -math.log(0.5)
    assert logs.std() == pytest.approx(1.0, abs=0.07)
    assert stats.shapiro(logs).pvalue > 0.01


def test_a_wave_lifts_and_lowers_all_in_turn():
    flat, waved = (
        Chance(by="rows", wave=w, cycle=4).table(np.arange(3), THREE) for w in (False, True)
    )
    np.testing.assert_allclose(waved, flat * [0.5, 0.9, 0.5, 0.1])


def test_rounds_follow_the_probabilities():
    population = PopulationInfo(
        30_000, 1, sizes=np.where(np.arange(30_000) % 2, 400, 100), holds=None
    )
    bernoulli, ids = Bernoulli(p=Chance(by="rows", wave=True, cycle=4)), np.arange(30_000)
    for round, level in ((1, 0.5), (2, 0.9), (4, 0.1), (6, 0.9)):
        there = bernoulli.available(ids, 0.0, round, population)
        for few, p in ((0, 0.5 * level), (1, level)):
            number = int(there[few::2].sum())
            assert stats.binomtest(number, 15_000, p).pvalue > 0.005


CHANCES = st.builds(
    Chance,
    by=st.sampled_from(["rows", "labels", "label-turns", "lognormal"]),
    bias=st.sampled_from([0.0, 0.3, 0.9]),
    wave=st.booleans(),
    cycle=st.integers(1, 9),
)


@settings(max_examples=8, deadline=None)
@given(CHANCES, st.lists(st.tuples(st.floats(0, 1e5), st.integers(1, 50)), min_size=1, max_size=3))
def test_pure_and_exact_as_every_availability(chance, questions):
    bernoulli = Bernoulli(p=chance, period_s=10.0)
    check_pure(bernoulli, questions)
    check_pure(Bernoulli(p=chance), questions)
    # one who is there in one of 10^6 periods changes long after `next_change` has searched enough
    if chance.by != "lognormal" or chance.bias < 0.9:
        require_announced_changes(bernoulli, *questions[0])


def test_who_is_certain_to_be_there_never_changes():
    bernoulli = Bernoulli(p=Chance(by="rows"), period_s=1.0)
    change = bernoulli.next_change(np.arange(12), 5.0, POPULATION)
    assert np.flatnonzero(np.isinf(change)).tolist() == [11]  # the client with most rows


def test_a_plan_knows_rows_and_labels(mixed):
    made = mixed()
    made["clients"]["groups"] = [
        {"name": "a", "ids": [0, 1], "availability": {"name": "bernoulli", "p": {"by": "labels"}}}
    ]
    made["clients"]["availability"] = {"name": "bernoulli", "p": {"by": "rows", "bias": 0.9}}
    (run,) = api.prepare(api.read(made)).runs
    info, shards = run.federation.population.info, run.federation.views.training.shards
    assert info.sizes.tolist() == shards.sizes(np.arange(13)).tolist()
    _, labels = shards.rows(np.array([3]), int(shards.sizes(np.array([3]))[0]))
    assert np.flatnonzero(info.holds[3]).tolist() == np.unique(labels).tolist()


def test_rows_alone_need_no_labels(mixed):
    made = mixed(problem={"name": "least-squares", "dataset": "line"})
    made["clients"]["availability"] = {"name": "bernoulli", "p": {"by": "few-rows"}}
    (run,) = api.prepare(api.read(made)).runs
    assert run.federation.population.info.holds is None
    made["clients"]["availability"] = {"name": "bernoulli", "p": {"by": "labels"}}
    with pytest.raises(ScenarioError, match="'bernoulli' by label needs class labels"):
        api.prepare(api.read(made))


WRONG = {
    r"p\.by: found 'size'": {"by": "size"},
    r"p: unknown key 'beta'|p\.beta: unknown key 'beta'": {"by": "rows", "beta": 1},
    r"p\.bias: found 1, which spreads without bound; give less": {"by": "lognormal", "bias": 1},
    "p: found 2": 2,
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_settings_are_one_line(mixed, message):
    made = mixed()
    made["clients"]["availability"] = {"name": "bernoulli", "p": WRONG[message]}
    with pytest.raises(ScenarioError, match=message) as caught:
        api.read(made)
    assert "\n" not in str(caught.value)
