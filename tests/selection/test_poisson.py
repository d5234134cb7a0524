"""Poisson cohorts: coins that do not know each other, and rounds without anybody."""

import numpy as np
import pytest

from rayfed.core.errors import ScenarioError
from rayfed.selection import Poisson, SelectionView
from rayfed.testing import tiny_run


def drawn(round, count=40, wanted=10, away=(), seed=0):
    view = SelectionView(
        count=count, round=round, time_s=0.0, wanted=wanted, seed=seed,
        available=lambda ids: ~np.isin(ids, away), mass=lambda ids: np.ones(len(ids)),
    )  # fmt: skip
    return Poisson().at_once(view, {})


def test_the_coin_falls_with_probability_q():
    """Of 100,000 coins with q = 0.3 as many fall as a binomial has, to 5 standard deviations."""
    away = range(50_000, 100_000)
    for wanted, gone, q in ((30_000, (), 0.3), (30_000, away, 0.15)):  # who is there keeps q
        number = len(drawn(0, count=100_000, wanted=wanted, away=gone))
        assert abs(number - q * 100_000) < 5 * np.sqrt(0.3 * 0.7 * 100_000)


def test_every_client_has_a_coin_of_its_own():
    rounds = 2000
    took = np.zeros((rounds, 40))
    for round in range(rounds):
        took[round, drawn(round)] = 1
    share = took.mean(axis=0)
    deviation = np.sqrt(0.25 * 0.75 / rounds)
    assert (np.abs(share - 0.25) < 4.5 * deviation).all()
    # sizes are binomial: variance N q (1 - q) = 7.5; of a fixed size it would be 0
    sizes = took.sum(axis=1)
    assert abs(sizes.mean() - 10) < 4.5 * np.sqrt(7.5 / rounds)
    assert abs(sizes.var() - 7.5) < 4.5 * 7.5 * np.sqrt(2 / rounds)
    pairs = np.corrcoef(took, rowvar=False)[np.triu_indices(40, 1)]
    assert np.abs(pairs).max() < 5 / np.sqrt(rounds)


def test_who_is_away_does_not_change_who_else_takes_part():
    away = [1, 5, 30]
    for round in range(50):
        there = drawn(round)
        assert drawn(round, away=away).tolist() == [i for i in there.tolist() if i not in away]
        assert (np.diff(there) > 0).all()


def test_rounds_without_anybody_are_rounds(tmp_path):
    participation = {"cohort": 1, "select": "poisson"}
    found = tiny_run(tmp_path, "fedavg", participation=participation, rounds=40).rounds
    assert found["round"].tolist() == list(range(41))
    empty = found.participants.iloc[1:] == 0
    assert 3 < empty.sum() < 30  # (7/8)^8 = 0.34
    assert found.participants.max() > 1  # nobody is cut off at the expected cohort
    still = found.time_s.diff().iloc[1:] == 0
    assert (still == empty).all()


def test_nobody_at_all_is_waited_for(tmp_path):
    # groups of two are there in turns of 50 s, and steps take 1 s
    clients = {"count": 2, "availability": {"name": "cyclic", "groups": 2, "period_s": 50.0},
               "groups": [{"ids": [1], "availability": "always"}]}  # fmt: skip
    participation = {"cohort": 2, "select": "poisson"}
    found = tiny_run(tmp_path, "fedavg", participation=participation, clients=clients, rounds=30)
    assert found.rounds.participants.iloc[1:].min() >= 1  # q = 1


@pytest.mark.parametrize("name", ["fedasync", "fedbuff", "fedat"])
def test_methods_without_rounds_are_refused(tmp_path, name):
    # an empty cohort is a round; without rounds nothing would draw again
    participation = {"cohort": 2, "select": "poisson"}
    with pytest.raises(ScenarioError, match=f"needs rounds, but '{name}' is"):
        tiny_run(tmp_path, name, participation=participation)
