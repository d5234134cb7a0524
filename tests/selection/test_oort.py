"""Oort by hand: utilities, the cut-off, exploration, and the pace."""

from dataclasses import replace

import numpy as np
import pytest

from rayfed import testing
from rayfed.selection import Oort, SelectionView, UniformSelection
from rayfed.testing import choose, reply
from tests.fakes.stepping import step

MASS = np.array([10.0, 20.0, 5.0, 40.0, 10.0, 8.0, 100.0, 1.0])


def seen(wanted=3, round=1, away=(), count=8):
    return SelectionView(
        count, round, 0.0, wanted, 0, lambda ids: ~np.isin(ids, away),
        lambda ids: MASS[np.asarray(ids) % 8],
    )  # fmt: skip


def heard(ids, losses, seconds, round=1):
    losses = np.asarray(losses, dtype=float)
    return reply(ids=ids, each={"loss": losses}, seconds=seconds, round=round, population=8)


def table(rule, ids, losses, seconds, round=1):
    """The state after a round in which some clients were new and replied."""
    ids = np.asarray(ids)
    others = tuple(np.setdiff1d(np.arange(8), ids))
    _, state, _ = choose(rule, seen(len(ids), round, away=others))
    return rule.learn(state, heard(ids, losses, seconds, round))


def test_utilities_by_hand():
    """n |loss| = 10, 40, 5, 40 (client 6: 100 * 0.4); the quantile 1 cuts nothing; T = 4 s."""
    rule = Oort(clip=1.0, percentile=50.0)
    state = table(rule, [0, 1, 2, 6], [1.0, -2.0, 1.0, 0.4], [2.0, 8.0, 4.0, 4.0])
    found = rule.scores(state, np.ones(4, dtype=bool), round=7)
    bonus = np.sqrt(0.1 * np.log(7))
    expected = np.array([5 / 35, 1.0, 0.0, 1.0]) + bonus
    expected[1] *= (4.0 / 8.0) ** 2
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    state = {**state, "percentile": np.array(100.0)}
    timeless = rule.scores(state, np.ones(4, dtype=bool), round=7)
    assert timeless[1] == pytest.approx(1.0 + bonus)


def test_large_utilities_are_cut_and_old_ones_gain_less_than_new():
    rule = Oort(clip=0.5, percentile=100.0, penalty=0.0)
    state = table(rule, [0, 1, 2], [1.0, 2.0, 1.0], [1.0, 1.0, 1.0])  # 10, 40, 5
    state = rule.learn(state, heard([0], [1.0], [1.0], round=4))
    found = rule.scores(state, np.ones(3, dtype=bool), round=9)
    log = 0.1 * np.log(9)
    np.testing.assert_allclose(found, [1 + np.sqrt(log / 4), 1 + np.sqrt(log), np.sqrt(log)])


def test_in_the_first_round_everybody_is_new():
    ids, state, _ = choose(Oort(), seen(3))
    assert len(set(ids.tolist())) == 3
    assert state["client"].tolist() == sorted(ids.tolist())
    assert (state["loss"] == -1).all()
    assert state["mass"].tolist() == MASS[np.sort(ids)].tolist()


def test_a_client_counts_by_the_rows_that_it_had_when_it_was_last_chosen():
    """Client 1 is chosen twice; meanwhile it and client 2, which is away, have doubled."""
    rule = Oort(explore=0.0, explore_least=0.0, cut_off=0.01)
    state = table(rule, [1, 2], [1.0, 1.0], [1.0, 1.0])
    grown = replace(seen(1, round=2, away=(2,)), mass=lambda ids: 2 * MASS[np.asarray(ids) % 8])
    ids, state, _ = choose(rule, grown, state)
    assert ids.tolist() == [1]
    assert state["mass"].tolist() == [40.0, 5.0]


def test_the_share_of_new_clients_decays():
    rule = Oort(explore=0.8, explore_decay=0.5, explore_least=0.25)
    state = table(rule, [0, 1, 2, 3], np.ones(4), np.ones(4))
    for round, fresh in ((1, 4), (2, 2), (3, 1), (20, 1)):  # int(4 (1 - share)) are known
        ids, _, _ = choose(rule, seen(4, round), state)
        assert np.count_nonzero(ids > 3) == fresh


def test_only_utilities_near_the_last_by_rank_can_be_drawn():
    """Utilities 1, 0.9 and 0.1 of the largest: two are wanted, the third is below the cut-off."""
    rule = Oort(explore=0.0, explore_least=0.0, percentile=100.0)
    state = table(rule, [0, 1, 2], [100.0, 45.0, 20.0], np.ones(3))
    drawn = {tuple(choose(rule, seen(2, round), state).ids) for round in range(2, 60)}
    assert drawn == {(0, 1)}
    lax = Oort(explore=0.0, explore_least=0.0, percentile=100.0, cut_off=0.01)
    drawn = [tuple(choose(lax, seen(2, round), state).ids) for round in range(2, 300)]
    assert set(drawn) == {(0, 1), (0, 2), (1, 2)}
    assert drawn.count((0, 1)) > drawn.count((1, 2))


def test_draws_are_in_proportion_to_utilities():
    rule = Oort(explore=0.0, explore_least=0.0, percentile=100.0, cut_off=1e-6, clip=1.0)
    state = table(rule, [0, 2, 4], [3.0, 2.0, 1.0], np.ones(3))  # 30, 10, 10
    runs, first = 1500, 0
    for seed in range(runs):
        view = seen(1, 2)
        view = SelectionView(8, 2, 0.0, 1, seed, view.available, view.mass)
        first += choose(rule, view, state).ids.tolist() == [0]
    scores = rule.scores(state, np.ones(3, dtype=bool), round=2)
    chance = scores[0] / scores.sum()
    assert abs(first / runs - chance) < 4.5 * np.sqrt(chance * (1 - chance) / runs)


def test_who_never_replied_is_chosen_last_and_fewer_where_there_are_fewer():
    rule = Oort(explore=0.0, explore_least=0.0)
    everybody = tuple(range(5, 8))
    _, state, _ = choose(rule, seen(2, 1, away=(2, 3, 4, *everybody)))  # 0 and 1 never reply
    state = table_after(rule, state, [2, 3])
    assert choose(rule, seen(2, 3), state).ids.tolist() == [2, 3]
    away = (4, *everybody)
    assert choose(rule, seen(3, 3, away), state).ids.tolist()[-2:] == [2, 3]
    assert choose(rule, seen(6, 3, away), state).ids.tolist() == [0, 1, 2, 3]
    assert choose(rule, seen(3, 3, away=range(8)), state).ids.tolist() == []


def table_after(rule, state, ids):
    _, state, _ = choose(rule, seen(len(ids), 2, away=np.setdiff1d(np.arange(8), ids)), state)
    return rule.learn(state, heard(ids, np.ones(len(ids)), np.ones(len(ids)), 2))


@pytest.mark.parametrize("replies", [1, 3])
def test_the_pace_slackens_when_less_is_gained(replies):
    """Late replies of earlier versions come by themselves: a round then has several."""
    rule = Oort(window=2, percentile=30.0, percentile_step=50.0)
    state, seen_at = rule.init(8), []
    for round in range(1, 12):
        _, state, _ = choose(rule, seen(1, round, away=range(1, 8)), state)
        loss = 1.0 if round < 7 else 0.5
        for _ in range(replies):
            state = rule.learn(state, heard([0], [loss], [1.0], round))
        seen_at.append(float(state["percentile"]))
    # looks before rounds 5, 7, 9 and 11: rounds 7-8 gain half of what 5-6 did, 9-10 as much as 7-8
    assert seen_at == [30.0] * 8 + [80.0] * 3


def test_with_everybody_new_it_is_the_uniform_selection():
    for round in range(1, 6):
        new, _, _ = choose(Oort(explore=1.0, explore_decay=1.0), seen(5, round, count=50))
        assert new.tolist() == choose(UniformSelection(), seen(5, round, count=50)).ids.tolist()


def test_it_hears_how_long_work_took(mixed):
    """Five steps of 1 s and 3 s, and a megabyte of download in a second."""
    made = mixed(algorithms=[{"name": "fedavg", "local": {"steps": 5, "batch": 2, "lr": 0.01}}])
    made["clients"] = {
        "count": 2, "delay": {"name": "constant", "mean_s": 1.0},
        "groups": [{"ids": [1], "delay": {"name": "constant", "mean_s": 3.0}}],
    }  # fmt: skip
    made["participation"] = {"cohort": 2, "select": "oort"}
    loop = testing.loop(made)
    state, _ = loop.start()
    after, _, events = step(loop, state)
    assert after.selection["seconds"].tolist() == [5.0, 15.0]
    np.testing.assert_array_equal(after.selection["loss"], np.abs(events[0]["loss"]))
    assert after.selection["last"].tolist() == [1, 1]


def test_a_whole_client_is_not_rounded_down():
    """1 - 0.8 of a cohort of 5 is one known client, though less in floating point."""
    state = table(Oort(), [0, 1, 2], np.ones(3), np.ones(3))
    ids, _, _ = choose(Oort(explore=0.8), seen(5), state)
    assert np.count_nonzero(ids > 2) == 4
