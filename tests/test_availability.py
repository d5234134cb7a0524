"""Availability: turns by hand, changes against a search period by period, draws that stay put."""

import numpy as np
import pytest

from rayfed import api
from rayfed.availability import Always, Bernoulli, Crowd, Cyclic
from rayfed.errors import ScenarioError

SIX = Crowd(count=6, seed=0)
IDS = np.arange(6)


def there(availability, t=0.0, round=1, ids=IDS, crowd=SIX):
    return availability.available(ids, t, round, crowd)


def test_always_never_changes():
    assert there(Always(), t=1e9, round=7).all()
    assert np.isinf(Always().next_change(IDS, 3.0, SIX)).all()


def test_cyclic_groups_are_contiguous_and_as_equal_as_can_be():
    crowd = Crowd(count=7, seed=0)
    groups = Cyclic(groups=3).group(np.arange(7), crowd)
    assert groups.tolist() == [0, 0, 0, 1, 1, 2, 2]


def test_cyclic_takes_turns_by_round():
    cyclic = Cyclic(groups=3, rounds=2)
    turns = [np.flatnonzero(there(cyclic, round=r)).tolist() for r in range(1, 8)]
    assert turns == [[0, 1], [0, 1], [2, 3], [2, 3], [4, 5], [4, 5], [0, 1]]
    assert np.isinf(cyclic.next_change(IDS, 0.0, SIX)).all()


def test_cyclic_without_a_length_changes_every_round():
    assert (
        there(Cyclic(groups=2), round=2).tolist()
        == there(Cyclic(groups=2, rounds=1), round=2).tolist()
        == [False] * 3 + [True] * 3
    )


def test_cyclic_takes_turns_by_time():
    cyclic = Cyclic(groups=3, period_s=10.0)
    times = (0.0, 9.99, 10.0, 25.0, 30.0)
    turns = [np.flatnonzero(there(cyclic, t=t, round=5)).tolist() for t in times]
    assert turns == [[0, 1], [0, 1], [2, 3], [4, 5], [0, 1]]


def test_cyclic_change_is_the_end_of_the_turn_or_the_start_of_the_next():
    change = Cyclic(groups=3, period_s=10.0).next_change(IDS, 12.0, SIX)
    assert change.tolist() == [30.0, 30.0, 20.0, 20.0, 20.0, 20.0]


def test_a_single_cyclic_group_never_changes():
    assert np.isinf(Cyclic(groups=1, period_s=10.0).next_change(IDS, 12.0, SIX)).all()


@pytest.mark.parametrize("period", [0.1, 0.3, 7e-3, 1 / 3])
def test_whoever_waits_for_a_change_finds_it_in_spite_of_rounding(period):
    cyclic, t = Cyclic(groups=3, period_s=period), 0.0
    for k in range(1, 500):
        t = float(cyclic.next_change(IDS, t, SIX).min())
        assert np.flatnonzero(there(cyclic, t=t)).tolist() == [2 * (k % 3), 2 * (k % 3) + 1]


def test_cyclic_refuses_two_lengths():
    with pytest.raises(ScenarioError, match="both rounds and period_s are given"):
        Cyclic(groups=2, rounds=1, period_s=1.0)


@pytest.mark.parametrize("bernoulli", [Bernoulli(p=0.3), Bernoulli(p=0.3, period_s=2.0)])
def test_bernoulli_has_its_probability_in_every_round(bernoulli):
    crowd = Crowd(count=10_000, seed=1)
    for k in range(3):
        share = there(bernoulli, t=2.0 * k, round=k, ids=np.arange(10_000), crowd=crowd).mean()
        assert abs(share - 0.3) < 4 * np.sqrt(0.3 * 0.7 / 10_000)


def test_bernoulli_draws_are_independent_from_round_to_round():
    ids, crowd = np.arange(10_000), Crowd(count=10_000, seed=1)
    both = there(Bernoulli(p=0.5), round=1, ids=ids, crowd=crowd) & there(
        Bernoulli(p=0.5), round=2, ids=ids, crowd=crowd
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
    crowd = Crowd(count=40, seed=5)
    change = bernoulli.next_change(ids, t, crowd)
    now = there(bernoulli, t=t, ids=ids, crowd=crowd)
    for i in ids:
        start = (int(t / 0.5) + 1) * 0.5
        while there(bernoulli, t=start, ids=ids[i : i + 1], crowd=crowd)[0] == now[i]:
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
    one, two = (there(Bernoulli(p=0.5), ids=ids, crowd=Crowd(100, seed)) for seed in (0, 1))
    assert (one != two).any()


def test_cyclic_groups_by_label_are_runs_of_the_clients_in_that_order():
    crowd = Crowd(count=4, seed=0, ranks=np.array([1, 3, 0, 2]))
    cyclic = Cyclic(groups=2, by="label")
    turns = [there(cyclic, round=r, ids=np.arange(4), crowd=crowd).tolist() for r in (1, 2)]
    assert turns == [[True, False, True, False], [False, True, False, True]]


def test_a_plan_orders_the_clients_by_label(mixed):
    made = mixed()
    made["clients"]["availability"] = {"name": "cyclic", "groups": 13, "by": "label"}
    (run,) = api.prepare(api.read(made)).runs
    turns = [np.flatnonzero(run.population.available(np.arange(13), 0.0, r)) for r in range(1, 14)]
    assert sorted(np.concatenate(turns).tolist()) == list(range(13))
    shards = run.views[""].shards
    rows = [shards.rows(turn, int(shards.sizes(turn)[0]))[1].ravel() for turn in turns]
    main = [int(np.bincount(labels).argmax()) for labels in rows]
    assert main == sorted(main)
    assert len(set(main)) > 1


def test_groups_by_label_need_labels(mixed):
    made = mixed()
    made["problem"] = {"name": "least-squares", "dataset": "line"}
    made["clients"]["availability"] = {"name": "cyclic", "groups": 3, "by": "label"}
    with pytest.raises(ScenarioError, match="the targets are numbers; leave it out"):
        api.prepare(api.read(made))
