"""Draws without replacement: the frequencies of one draw after another, whichever way they go."""

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import chisquare

from rayfed.selection import SelectionView
from rayfed.selection.draws import distinct


def view(count, round=1, available=lambda ids: ids >= 0, mass=lambda ids: ids + 1.0, seed=0):
    return SelectionView(count, round, 0.0, 1, seed, available, mass)


def expected(masses, count):
    """Return the probability of each ordered draw, multiplied out."""
    chances = {}
    for order in permutations(range(len(masses)), count):
        left, chance = sum(masses), 1.0
        for i in order:
            chance *= masses[i] / left
            left -= masses[i]
        chances[order] = chance
    return chances


@pytest.mark.parametrize(("clients", "count"), [(5, 2), (3, 2)], ids=["rejection", "race"])
def test_ordered_pairs_have_the_probabilities_of_successive_draws(clients, count):
    masses = np.arange(1.0, clients + 1)
    chances, rounds = expected(masses, count), 4000
    found = dict.fromkeys(chances, 0)
    for round in range(1, rounds + 1):
        found[tuple(distinct(view(clients, round), count).tolist())] += 1
    assert sum(chances.values()) == pytest.approx(1)
    scaled = [rounds * chances[order] for order in chances]
    assert chisquare([found[order] for order in chances], scaled).pvalue > 1e-3


def test_who_is_away_or_counts_for_nothing_is_never_drawn():
    for round in range(1, 40):
        seen = view(30, round, lambda ids: ids % 2 == 0, lambda ids: (ids % 3 > 0) * 1.0)
        drawn = distinct(seen, 6)
        assert len(set(drawn.tolist())) == 6
        assert (drawn % 2 == 0).all()
        assert (drawn % 3 > 0).all()


def test_fewer_are_drawn_where_fewer_are_there():
    drawn = distinct(view(1000, available=lambda ids: np.isin(ids, [3, 700])), 5)
    assert sorted(drawn.tolist()) == [3, 700]
    assert distinct(view(10, available=lambda ids: ids < 0), 5).tolist() == []


def test_one_client_that_outweighs_all_others_does_not_keep_them_out():
    seen = view(1000, mass=lambda ids: np.where(ids == 0, 1e12, 1.0))
    drawn = distinct(seen, 4)
    assert len(set(drawn.tolist())) == 4
    assert drawn[0] == 0


def test_the_cost_is_that_of_the_draws():
    asked = []

    def available(ids):
        asked.append(len(ids))
        return ids >= 0

    assert len(distinct(view(10**5, available=available), 20)) == 20
    assert sum(asked) <= 60
