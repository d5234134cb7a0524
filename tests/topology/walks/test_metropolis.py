"""Rules of the next move by hand, the laws that they keep, and the path of a walker.

Visits of one walk depend on each other, and a chi-square test assumes that they do not: a walk is
thinned to every so many steps, after which its law is within 0.02 of the stationary one.
"""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from rayfed.core.errors import ScenarioError
from rayfed.topology import (
    EdgeList,
    Geometric,
    Graphs,
    Grid,
    Metropolis,
    Near,
    Random,
    Ring,
    Star,
    Still,
    Targets,
    UniformWalk,
    Walker,
)
from rayfed.topology.chain import Chain

RULES = pytest.mark.parametrize(
    "walk", [UniformWalk(), Metropolis(), UniformWalk(lazy=0.3), Metropolis(lazy=0.5)], ids=str
)
PAW = EdgeList(5, [[0, 1], [1, 2], [2, 0], [2, 3]])  # a triangle with a tail, and client 4 alone


def test_uniform_moves_by_hand():
    assert [part.tolist() for part in UniformWalk().moves(PAW, 2)] == [
        [0, 1, 2, 3], pytest.approx([1 / 3, 1 / 3, 0, 1 / 3]),
    ]  # fmt: skip
    chances = UniformWalk(lazy=0.4).moves(PAW, 2)[1]
    assert chances.tolist() == pytest.approx([0.2, 0.2, 0.4, 0.2])


def test_metropolis_moves_by_hand():
    assert [part.tolist() for part in Metropolis().moves(PAW, 0)] == [
        [0, 1, 2], pytest.approx([1 / 6, 1 / 2, 1 / 3]),
    ]  # fmt: skip
    assert Metropolis().moves(PAW, 3)[1].tolist() == pytest.approx([1 / 3, 2 / 3])


@RULES
def test_who_has_no_links_stays(walk):
    assert [part.tolist() for part in walk.moves(PAW, 4)] == [[4], [1.0]]


@RULES
def test_the_matrix_holds_the_moves(walk):
    matrix = walk.matrix(PAW).toarray()
    for client in range(5):
        ids, chances = walk.moves(PAW, client)
        np.testing.assert_allclose(matrix[client, ids], chances, atol=1e-15)
        assert np.delete(matrix[client], ids).tolist() == [0] * (5 - len(ids))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=20))
def test_rows_sum_to_one_and_the_laws_are_kept_on_any_graph(pairs):
    graph = EdgeList(8, np.array(pairs, dtype=np.int64))
    degrees = graph.degrees(np.arange(8))
    for walk, law in [(UniformWalk(), np.maximum(degrees, 1)), (Metropolis(lazy=0.1), np.ones(8))]:
        matrix = walk.matrix(graph).toarray()
        assert (matrix >= 0).all()
        np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-12)
        if walk.name == "metropolis" or degrees.all():
            np.testing.assert_allclose(law @ matrix, law, atol=1e-12)


def test_one_neighbourhood_is_all_that_a_move_asks_for():
    positions = np.random.default_rng(0).random((300, 2)) * 100
    near, listed = Near(positions, 10.0), Near(positions, 10.0).listed()
    for walk in (UniformWalk(), Metropolis()):
        for client in range(0, 300, 17):
            few, all_ = walk.moves(near, client), walk.moves(listed, client)
            np.testing.assert_array_equal(few[0], all_[0])
            np.testing.assert_array_equal(few[1], all_[1])
    assert set(vars(near)) == {"count", "positions", "range_m", "down", "_tree"}


PERIODIC = [(Ring(), 6), (Star(), 5), (Grid(), 9)]


@pytest.mark.parametrize(("topology", "count"), PERIODIC)
def test_a_walk_with_a_period_is_made_lazy(topology, count):
    assert UniformWalk().resolved(Graphs(topology, count, 0)).lazy == 0.5


@pytest.mark.parametrize(("topology", "count"), PERIODIC)
def test_a_walk_with_a_period_is_refused_where_asked(topology, count):
    with pytest.raises(ScenarioError) as refused:
        UniformWalk(periodic="refuse").resolved(Graphs(topology, count, 0))
    assert str(refused.value) == (
        "'uniform' comes back only every 2 moves and never mixes; set lazy, or periodic to lazy"
    )


@pytest.mark.parametrize(
    ("walk", "topology", "count"),
    [
        (UniformWalk(), Ring(), 5),
        (Metropolis(), Star(), 5),
        (UniformWalk(lazy=0.1), Ring(), 6),
        (UniformWalk(), Random(p=0.5), 12),
    ],
)
def test_a_walk_without_a_period_stays_as_it_is(walk, topology, count):
    assert walk.resolved(Graphs(topology, count, 0)) is walk


def test_a_move_takes_seconds_and_staying_none():
    walk = UniformWalk(hop_s=2.5)
    assert [walk.seconds(PAW, 0, 1), walk.seconds(PAW, 1, 1)] == [2.5, 0.0]
    graph = Near(np.array([[0.0, 0.0], [30.0, 40.0]]), 60.0)
    assert UniformWalk(hop_s=2.5, speed_m_s=10.0).seconds(graph, 0, 1) == 5.0


def test_a_speed_needs_positions():
    with pytest.raises(ScenarioError, match=r"^speed_m_s: found 10, but the clients have no"):
        UniformWalk(speed_m_s=10.0).resolved(Graphs(Ring(), 5, 0))
    still = Geometric(range_m=900.0, mobility=Still())
    assert UniformWalk(speed_m_s=10.0).resolved(Graphs(still, 5, 0)).speed_m_s == 10.0


@pytest.mark.parametrize("count", range(3, 14))
def test_a_star_of_any_size_has_a_period_of_two(count):
    graph = Graphs(Star(), count, 0).of(0)
    assert Chain(UniformWalk().matrix(graph)).period == 2
    np.testing.assert_allclose(UniformWalk().matrix(graph).sum(axis=1), 1.0, rtol=1e-15)


def way(walker, steps):
    """Return the positions after so many rounds of one step."""
    position, seen = walker.first(), []
    for round in range(1, steps + 1):
        position = walker.step(position, round)
        seen.append(position)
    return np.array(seen)


def visits(walker, samples, apart):
    return np.bincount(way(walker, samples * apart)[apart - 1 :: apart], minlength=8)


@pytest.mark.parametrize("walk", [UniformWalk(), Metropolis()], ids=["uniform", "metropolis"])
def test_on_a_graph_that_stays_visits_follow_the_stationary_law(walk):
    graphs = Graphs(Random(p=0.45), 8, 1)
    chain = Chain(walk.resolved(graphs).matrix(graphs.of(0)))
    apart = int(chain.mixing_time(0.02))
    degrees = graphs.of(0).degrees(np.arange(8))
    assert len(set(degrees)) > 2
    law = degrees / degrees.sum() if walk.name == "uniform" else np.full(8, 1 / 8)
    counts = visits(Walker(graphs, walk), 300, apart)
    assert chisquare(counts, 300 * law).pvalue > 1e-3
    if walk.name == "uniform":  # the test can tell: these are no uniform visits
        assert chisquare(counts).pvalue < 1e-3


@pytest.mark.parametrize(
    ("topology", "apart"),
    [
        (Random(p=0.45, every=1), 8),
        (Targets(number=2, every=2, loss=0.4, disconnected="allow"), 12),
    ],
    ids=["redrawn every round", "in parts now and then"],
)
def test_on_graphs_that_change_metropolis_visits_stay_uniform(topology, apart):
    """Every matrix keeps the uniform law; the product of so many in a row has forgotten."""
    graphs, walk, samples = Graphs(topology, 8, 2), Metropolis(lazy=0.1), 150
    matrices = [walk.matrix(graphs.at(r)).toarray() for r in range(1, 20 * apart + 1)]
    for k in range(0, len(matrices), apart):
        law = np.linalg.multi_dot(matrices[k : k + apart])
        assert np.abs(law - 1 / 8).sum(axis=1).max() / 2 < 0.1
    counts = visits(Walker(graphs, walk), samples, apart)
    assert chisquare(counts).pvalue > 1e-3


def test_uniform_moves_on_a_star_prefer_its_centre():
    seen = way(Walker(Graphs(Star(), 8, 0), UniformWalk()), 600)
    assert (seen == 0).mean() == pytest.approx(0.5, abs=0.06)


def test_a_walker_follows_links_alone():
    graphs = Graphs(Random(p=0.3, every=2, loss=0.1), 15, 0)
    walker = Walker(graphs, UniformWalk())
    seen = [walker.first(), *way(walker, 150)]
    for round, (source, target) in enumerate(pairwise(seen), start=1):
        assert target in graphs.at(round).neighbours(source)
        around = walker.neighbours(source, round).tolist()
        assert around == sorted({source, *graphs.at(round).neighbours(source).tolist()})
    assert len(set(seen)) > 10


def test_a_walk_can_be_taken_up_anywhere():
    """Its position is all that it needs."""
    moving = Geometric(range_m=400.0, every_s=5.0, round_s=5.0)
    whole = way(Walker(Graphs(moving, 12, 4), Metropolis()), 40)
    resumed, position = Walker(Graphs(moving, 12, 4), Metropolis()), int(whole[24])
    for round in range(26, 41):
        position = resumed.step(position, round)
        assert position == whole[round - 1]


def test_moves_are_keyed():
    ways = [way(Walker(Graphs(Grid(), 16, seed), UniformWalk()), 20).tolist() for seed in (0, 0, 1)]
    assert ways[0] == ways[1] != ways[2]
    walker = Walker(Graphs(Ring(), 9, 0), UniformWalk())
    assert {walker.step(4, 1, ask=ask) for ask in range(20)} == {3, 5}


def test_every_client_may_be_the_first():
    firsts = [Walker(Graphs(Ring(), 5, seed), UniformWalk()).first() for seed in range(500)]
    assert chisquare(np.bincount(firsts, minlength=5)).pvalue > 1e-3


def test_seconds_are_those_of_the_graph_of_the_moment():
    graphs = Graphs(Geometric(range_m=2000.0, every_s=10.0), 5, 0)
    walker = Walker(graphs, UniformWalk(speed_m_s=4.0))
    for time_s in (0.0, 500.0):
        way_m = graphs.at(1, time_s).distance(1, 3)
        assert walker.seconds(1, 3, 1, time_s) == pytest.approx(way_m / 4.0)
    assert walker.seconds(1, 3, 1, 0.0) != walker.seconds(1, 3, 1, 500.0)
