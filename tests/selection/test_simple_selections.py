"""Selections that ask nobody: exact on small cases, right frequencies, at a cost by the cohort."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare

from rayfed.core.errors import RunFailed
from rayfed.core.rng import Key
from rayfed.selection import All, PowerOfD, Selection, SelectionView, UniformSelection, Weighted
from rayfed.testing import choose


def everybody(ids):
    return np.ones(len(ids), dtype=bool)


def view(count=10, wanted=4, round=1, available=everybody, mass=np.ones_like, **more):
    return SelectionView(count, round, 0.0, wanted, more.pop("seed", 0), available, mass, **more)


def drawn(selection: Selection, seen: SelectionView):
    """Run a selection that must ask nobody; return the ids and the state."""
    ids, state, _ = choose(selection, seen, {"kept": np.arange(3)})
    return ids, state


@pytest.mark.parametrize("selection", [All(), UniformSelection(), Weighted()], ids=lambda s: s.name)
def test_state_passes_through_and_starts_empty(selection):
    _, state = drawn(selection, view())
    assert state["kept"].tolist() == [0, 1, 2]
    assert selection.init(5) == {}


@pytest.mark.parametrize("selection", [All(), UniformSelection(), Weighted()], ids=lambda s: s.name)
def test_nobody_available_gives_nobody(selection):
    ids, _ = drawn(selection, view(available=lambda ids: np.zeros(len(ids), dtype=bool)))
    assert ids.tolist() == []
    assert ids.dtype == np.int64


def test_all_takes_every_available_client():
    ids, _ = drawn(All(), view(wanted=2, available=lambda ids: ids % 3 == 0))
    assert ids.tolist() == [0, 3, 6, 9]


def test_uniform_draws_distinct_available_clients():
    for round in range(1, 30):
        ids, _ = drawn(
            UniformSelection(), view(count=50, round=round, available=lambda ids: ids % 2 == 1)
        )
        assert len(set(ids.tolist())) == len(ids) == 4
        assert (ids % 2 == 1).all()
        assert (np.diff(ids) > 0).all()


def test_uniform_returns_fewer_where_fewer_are_there():
    ids, _ = drawn(
        UniformSelection(), view(count=500, available=lambda ids: np.isin(ids, [3, 477]))
    )
    assert ids.tolist() == [3, 477]


def test_uniform_pairs_are_equally_likely():
    rounds = 3000
    pairs = Counter(
        tuple(drawn(UniformSelection(), view(count=4, wanted=2, round=r))[0].tolist())
        for r in range(1, rounds + 1)
    )
    assert len(pairs) == 6
    assert chisquare(list(pairs.values())).pvalue > 1e-3


def test_uniform_over_the_available_is_uniform():
    chosen = [
        drawn(
            UniformSelection(),
            view(count=300, wanted=1, round=r, available=lambda ids: ids % 50 == 7),
        )[0]
        for r in range(1, 1201)
    ]
    counts = np.bincount(np.concatenate(chosen) // 50, minlength=6)
    assert counts.sum() == 1200
    assert chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("there", [lambda ids: ids >= 0, lambda ids: ids % 9 == 4])
def test_looking_at_many_walks_at_once_draws_the_same_client(there):
    """One is wanted, in rounds that go up with gaps and back, from a population of 50."""
    cache = {}
    for round in (1, 2, 3, 66, 67, 200, 65, 4):
        seen = view(50, 1, round, available=there, cache=cache)
        walk = Key(0, "cohort").permutation(50, round=round)(np.arange(50))
        assert drawn(UniformSelection(), seen)[0].tolist() == [walk[there(walk)][0]]


@pytest.mark.parametrize("selection", [All(), UniformSelection()], ids=lambda s: s.name)
@pytest.mark.parametrize("wanted", [2, 3, 5])
def test_knowing_who_is_idle_changes_nobody(selection, wanted):
    idle = np.array([3, 17, 40])

    def there(ids):
        return np.isin(ids, [3, 40])

    known = drawn(selection, view(50, wanted, 7, available=there, idle=idle))[0]
    assert known.tolist() == drawn(selection, view(50, wanted, 7, available=there))[0].tolist()


def test_uniform_costs_the_cohort_and_not_the_population():
    asked = []

    def half(ids):
        asked.append(len(ids))
        return ids % 2 == 0

    ids, _ = drawn(UniformSelection(), view(count=10**6, wanted=100, available=half))
    assert len(ids) == 100
    assert sum(asked) <= 700


def test_weighted_draws_in_proportion_to_sizes():
    sizes = np.array([1, 0, 2, 5])
    counts = np.zeros(4)
    for round in range(1, 501):
        ids, _ = drawn(Weighted(), view(4, 8, round, mass=lambda ids: sizes[ids]))
        assert len(ids) == 8
        counts += np.bincount(ids, minlength=4)
    assert counts[1] == 0
    assert chisquare(counts[[0, 2, 3]], 4000 * sizes[[0, 2, 3]] / 8).pvalue > 1e-3


@pytest.mark.parametrize("away", [2, 990], ids=["rejected", "listed"])
def test_weighted_among_the_available_keeps_their_proportions(away):
    count = 1000
    sizes = 1 + np.arange(count) % 3
    counts = np.zeros(count)
    for round in range(1, 301):
        seen = view(
            count, 20, round, available=lambda ids: ids >= away, mass=lambda ids: sizes[ids]
        )
        ids, _ = drawn(Weighted(), seen)
        assert len(ids) == 20
        counts += np.bincount(ids, minlength=count)
    assert counts[:away].sum() == 0
    by_size = [counts[sizes == s].sum() for s in (1, 2, 3)]
    share = [sizes[away:][sizes[away:] == s].sum() for s in (1, 2, 3)]
    assert chisquare(by_size, 6000 * np.array(share) / sum(share)).pvalue > 1e-3


def test_weighted_takes_nobody_without_rows():
    ids, _ = drawn(Weighted(), view(5, 3, available=lambda ids: ids < 2, mass=lambda ids: ids // 2))
    assert ids.tolist() == []


def test_weighted_makes_its_table_once_a_run():
    asked = []

    def sizes(ids):
        asked.append(len(ids))
        return np.ones_like(ids)

    cache = {}
    for round in range(1, 6):
        drawn(Weighted(), view(1000, 5, round, mass=sizes, cache=cache))
    assert asked == [1000]


@pytest.mark.parametrize("selection", [UniformSelection(), Weighted()], ids=lambda s: s.name)
def test_the_cohort_is_a_function_of_seed_and_round(selection):
    same = [drawn(selection, view(1000, 10, 3))[0].tolist() for _ in range(2)]
    assert same[0] == same[1]
    assert drawn(selection, view(1000, 10, 4))[0].tolist() != same[0]
    assert drawn(selection, view(1000, 10, 3, seed=1))[0].tolist() != same[0]


def test_who_is_drawn_at_once_and_that_others_ask_first():
    assert (
        UniformSelection().at_once(view(), {}).tolist()
        == drawn(UniformSelection(), view())[0].tolist()
    )
    with pytest.raises(RunFailed, match="'power-of-d' asks clients before it selects"):
        PowerOfD(d=6).at_once(view(), PowerOfD(d=6).init(10))


def test_the_next_of_a_walk_takes_the_place_of_one_that_failed():
    """A retry draws with the key of the round, among those that have not been asked."""
    walk = Key(0, "cohort").permutation(10, round=1)(np.arange(10))
    asked = walk[:4]
    rest = view(wanted=1, available=lambda ids: ~np.isin(ids, asked))
    assert UniformSelection().at_once(rest, {}).tolist() == [walk[4]]


@pytest.mark.parametrize(("count", "wanted"), [(1000, 100), (70, 3), (10**6, 5000)])
def test_cohorts_that_are_drawn_ahead_are_those_of_their_rounds(count, wanted):
    """With a cache the walks of rounds that follow one another begin with known heads."""
    cache = {}
    for round in [1, 2, 3, 80, 81, 82, 200, 3]:
        there = lambda ids, r=round: (ids + r) % 3 > 0  # noqa: E731
        seen = {"count": count, "wanted": wanted, "round": round, "available": there}
        ahead, _ = drawn(UniformSelection(), view(**seen, cache=cache))
        alone, _ = drawn(UniformSelection(), view(**seen))
        np.testing.assert_array_equal(ahead, alone)
    assert ("heads" in cache) == (wanted < 5000)
