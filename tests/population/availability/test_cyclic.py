"""Cyclic availability: turns by hand, changes that are found in spite of rounding."""

import numpy as np
import pytest

from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.population import Cyclic, PopulationInfo

SIX = PopulationInfo(count=6, seed=0)
IDS = np.arange(6)


def there(availability, t=0.0, round=1, ids=IDS, population=SIX):
    return availability.available(ids, t, round, population)


def test_cyclic_groups_are_contiguous_and_as_equal_as_can_be():
    population = PopulationInfo(count=7, seed=0)
    groups = Cyclic(groups=3).group(np.arange(7), population)
    assert groups.tolist() == [0, 0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("by", ["id", "label"])
def test_groups_are_never_dealt_anew_and_nobody_is_left_out(by):
    """Seven clients in three groups: everybody has one turn a cycle, with the same others."""
    population, ids = (
        PopulationInfo(count=7, seed=0, ranks=np.array([4, 6, 0, 2, 5, 1, 3])),
        np.arange(7),
    )
    cyclic = Cyclic(groups=3, by=by)
    turns = np.array([there(cyclic, round=r, ids=ids, population=population) for r in range(1, 13)])
    cycles = turns.reshape(4, 3, 7)
    assert (cycles.sum(axis=1) == 1).all()
    assert (cycles == cycles[0]).all()
    assert cycles[0].sum(axis=1).tolist() == [3, 2, 2]


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


def test_cyclic_groups_by_label_are_runs_of_the_clients_in_that_order():
    population = PopulationInfo(count=4, seed=0, ranks=np.array([1, 3, 0, 2]))
    cyclic = Cyclic(groups=2, by="label")
    turns = [
        there(cyclic, round=r, ids=np.arange(4), population=population).tolist() for r in (1, 2)
    ]
    assert turns == [[True, False, True, False], [False, True, False, True]]


def test_a_plan_orders_the_clients_by_label(mixed):
    made = mixed()
    made["clients"]["availability"] = {"name": "cyclic", "groups": 13, "by": "label"}
    (run,) = api.prepare(api.read(made)).runs
    turns = [
        np.flatnonzero(run.federation.population.available(np.arange(13), 0.0, r))
        for r in range(1, 14)
    ]
    assert sorted(np.concatenate(turns).tolist()) == list(range(13))
    shards = run.federation.views.training.shards
    rows = [shards.rows(turn, int(shards.sizes(turn)[0]))[1].ravel() for turn in turns]
    main = [int(np.bincount(labels).argmax()) for labels in rows]
    assert main == sorted(main)
    assert len(set(main)) > 1


def test_groups_by_label_need_labels(mixed):
    made = mixed()
    made["problem"] = {"name": "least-squares", "dataset": "line"}
    made["clients"]["availability"] = {"name": "cyclic", "groups": 3, "by": "label"}
    with pytest.raises(ScenarioError, match="'cyclic' by label needs class labels"):
        api.prepare(api.read(made))
