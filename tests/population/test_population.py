"""The population: membership counted, times by hand, nothing that grows with its size."""

import dataclasses
import pickle
import tracemalloc

import numpy as np
import pytest
from scipy import stats

from rayfed.core.errors import ScenarioError
from rayfed.population import (
    Always,
    Bernoulli,
    Connection,
    ConstantDelay,
    Cyclic,
    Exponential,
    Group,
    Population,
    Stragglers,
)


def test_without_groups_everybody_is_in_group_zero():
    assert Population(4, 0).group_of([3, 0, 2]).tolist() == [0, 0, 0]


def test_explicit_ids_go_first_and_shares_are_exact():
    named, drawn, rest = Group(ids=(2, 9, 4)), Group(count=5), Group(count=3)
    population = Population(12, seed=1, groups=(drawn, named, rest))
    groups = population.group_of(np.arange(12))
    assert np.flatnonzero(groups == 2).tolist() == [2, 4, 9]
    assert np.bincount(groups).tolist() == [1, 5, 3, 3]


def test_groups_may_claim_everybody():
    population = Population(5, 0, groups=(Group(ids=(0, 1)), Group(count=3)))
    assert np.bincount(population.group_of(np.arange(5))).tolist() == [0, 2, 3]
    named = Population(2, 0, groups=(Group(ids=(1,)), Group(ids=(0,))))
    assert named.group_of([0, 1]).tolist() == [2, 1]


def test_membership_is_uniform_over_seeds():
    member = [
        Population(10, s, groups=(Group(count=3),)).group_of(np.arange(10)) for s in range(400)
    ]
    share = np.mean(member, axis=0)
    assert np.abs(share - 0.3).max() < 4 * np.sqrt(0.3 * 0.7 / 400)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([Group(ids=(0, 5))], "found id 5; ids go from 0 to 4"),
        ([Group(ids=(-1,))], "found id -1"),
        ([Group(ids=(1,)), Group(ids=(2, 1))], "found id 1 twice"),
        ([Group(ids=(1,)), Group(count=5)], "the groups have 6 clients, but clients.count is 5"),
    ],
)
def test_groups_that_cannot_be(groups, message):
    with pytest.raises(ScenarioError, match=message) as error:
        Population(5, 0, groups=tuple(groups))
    assert error.value.place == "clients.groups"


def test_more_cyclic_groups_than_clients():
    with pytest.raises(ScenarioError, match="found 4 cyclic groups of 3 clients; give fewer"):
        Population(3, 0, availability=Cyclic(groups=4))
    with pytest.raises(ScenarioError, match="found 4 cyclic groups of 3 clients; give fewer"):
        Population(3, 0, groups=(Group(ids=(1,), availability=Cyclic(groups=4)),))


def test_stragglers_are_a_fixed_set_of_the_rounded_share():
    population = Population(30, seed=2, stragglers=Stragglers(fraction=0.25, slowdown=8.0))
    slow = population.straggles(np.arange(30))
    assert slow.sum() == 8  # round(7.5) to even
    seconds = population.seconds_per_step(np.arange(30), 1, 0)
    assert seconds.tolist() == np.where(slow, 8.0, 1.0).tolist()
    assert population.straggles([7, 3]).tolist() == slow[[7, 3]].tolist()


def test_seconds_are_drawn_once_per_client_round_and_ask():
    population = Population(1000, 0, delay=Exponential(mean_s=2.0))
    ids = np.arange(1000)
    first = population.seconds_per_step(ids, 1, 0)
    assert population.seconds_per_step(ids[::-1], 1, 0)[::-1].tolist() == first.tolist()
    assert (population.seconds_per_step(ids, 2, 0) != first).all()
    assert (population.seconds_per_step(ids, 1, 1) != first).all()
    assert abs(first.mean() - 2.0) < 4 * 2.0 / np.sqrt(1000)


def test_scaling_the_delay_keeps_the_draw():
    ids = np.arange(20)
    one, three = (
        Population(20, 0, delay=Exponential(mean_s=m)).seconds_per_step(ids, 4, 0) for m in (1, 3)
    )
    np.testing.assert_allclose(three, 3 * one, rtol=1e-15)


def test_a_group_has_its_own_delay():
    population = Population(
        4, 0, ConstantDelay(mean_s=1.0), groups=(Group(ids=(1,), delay=ConstantDelay(mean_s=9.0)),)
    )
    assert population.seconds_per_step([0, 1, 2], 1, 0).tolist() == [1.0, 9.0, 1.0]
    assert population.mean_seconds_per_step([1, 3]).tolist() == [9.0, 1.0]


def test_mean_seconds_include_the_slowdown():
    population = Population(
        2, 0, Exponential(mean_s=3.0), stragglers=Stragglers(fraction=1.0, slowdown=2.0)
    )
    assert population.mean_seconds_per_step([0, 1]).tolist() == [6.0, 6.0]


def test_transfers_in_megabits_per_second():
    phone = Group(ids=(1,), network=Connection(down_mbps=8.0, latency_s=0.5))
    population = Population(2, 0, network=Connection(down_mbps=20.0, up_mbps=5.0), groups=(phone,))
    down, up = population.transfer_s([0, 1], 1_000_000, np.array([250_000, 250_000]))
    np.testing.assert_allclose(down, [0.4, 1.5])  # 8 Mbit at 20; 8 Mbit at 8, and the latency
    np.testing.assert_allclose(up, [0.4, 0.5])  # 2 Mbit at 5; free but for the latency


def test_transfers_are_free_without_a_network():
    down, up = Population(2, 0).transfer_s([0, 1], 1e9, 1e9)
    assert down.tolist() == up.tolist() == [0.0, 0.0]


def test_connections_break_with_their_probability_at_any_moment():
    groups = (Group(count=4000, network=Connection(loss=0.3)),)
    population, ids = Population(10_000, 0, groups=groups), np.arange(10_000)
    lost = population.lost(ids, 5, 0)
    broken = np.isfinite(lost)
    assert not broken[population.group_of(ids) == 0].any()
    assert stats.binomtest(int(broken.sum()), 4000, 0.3).pvalue > 0.01
    assert stats.kstest(lost[broken], "uniform").pvalue > 0.01
    assert population.lossy
    assert not Population(3, 0).lossy


def test_a_group_has_its_own_availability():
    population = Population(
        4, 0, availability=Cyclic(groups=2, period_s=10.0),
        groups=(Group(ids=(3,), availability=Always()),),
    )  # fmt: skip
    assert population.available(np.arange(4), 0.0, 1).tolist() == [True, True, False, True]
    assert population.next_change(np.arange(4), 0.0).tolist() == [10.0, 10.0, 10.0, np.inf]


def test_nobody_may_be_asked_about():
    population = Population(3, 0, groups=(Group(ids=(0,), delay=Exponential()),))
    assert population.mean_seconds_per_step([]).shape == (0,)
    assert population.available([], 0.0, 1).shape == (0,)
    assert population.group_of([]).shape == (0,)


def test_answers_do_not_depend_on_who_else_is_asked_about():
    population = Population(
        100, 3, Exponential(), Stragglers(0.2, 5.0), availability=Bernoulli(p=0.5, period_s=1.0),
        groups=(Group(count=30, delay=ConstantDelay(mean_s=2.0)),),
    )  # fmt: skip
    ids = np.arange(100)
    whole = population.seconds_per_step(ids, 2, 0)
    assert whole.tolist() == [population.seconds_per_step([i], 2, 0)[0] for i in ids]
    change = population.next_change(ids, 4.2)
    assert change.tolist() == [population.next_change([i], 4.2)[0] for i in ids]


def test_a_copy_from_another_process_gives_the_same_answers():
    population = Population(50, 3, Exponential(), groups=(Group(count=9), Group(ids=(4,))))
    population.group_of(np.arange(50))
    copy = pickle.loads(pickle.dumps(population))
    assert copy == population
    assert copy.group_of(np.arange(50)).tolist() == population.group_of(np.arange(50)).tolist()


def test_it_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Population(2, 0).count = 3


def test_a_million_clients_cost_nothing_until_asked():
    groups = (Group(count=300_000, delay=ConstantDelay(mean_s=2.0)), Group(ids=(5, 17)))
    tracemalloc.start()
    try:
        population = Population(
            1_000_000, 0, stragglers=Stragglers(0.2, 8.0), availability=Cyclic(groups=4),
            groups=groups,
        )  # fmt: skip
        ids = np.array([0, 5, 999_999])
        assert population.group_of(ids)[1] == 2
        population.seconds_per_step(ids, 1, 0)
        population.available(ids, 0.0, 1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000  # one byte to a client would be more


def test_a_share_that_is_half_a_client_beyond_is_rounded_to_even():
    """0.82 of 75 are 61.5; in floating point a little less."""
    population = Population(75, 0, stragglers=Stragglers(fraction=0.82, slowdown=8.0))
    assert population.straggles(np.arange(75)).sum() == 62


def test_capacities_follow_the_speed_and_those_of_groups_replace_them():
    slow = Group("slow", ids=(0, 4), delay=ConstantDelay(mean_s=9.0))
    own = Group("own", ids=(5,), capacity=0.3)
    population = Population(6, 0, capacity=(1.0, 0.5, 0.25), groups=(slow, own))
    assert population.capacities().tolist() == [0.25, 1.0, 1.0, 0.5, 0.25, 0.3]


def test_one_capacity_is_that_of_all_and_more_than_clients_are_those_of_the_fastest():
    assert Population(3, 0, capacity=0.5).capacities().tolist() == [0.5, 0.5, 0.5]
    assert Population(3, 0).capacities().tolist() == [1.0, 1.0, 1.0]
    assert Population(2, 0, capacity=(1.0, 0.5, 0.25)).capacities().tolist() == [1.0, 0.5]


def test_capacities_follow_stragglers():
    population = Population(40, 3, stragglers=Stragglers(0.5, 8.0), capacity=(1.0, 0.5))
    slow = population.straggles(np.arange(40))
    assert (population.capacities() == np.where(slow, 0.5, 1.0)).all()
