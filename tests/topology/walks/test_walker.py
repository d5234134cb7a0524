"""A walker: keyed moves, its place kept as graphs change, visits by the stationary law.

Visits of one walk depend on each other, and a chi-square test assumes that they do not: a walk is
thinned to every so many steps, after which its law is within 0.02 of the stationary one.
"""

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import chisquare

from rayfed.topology import Graphs
from rayfed.topology.chain import Chain
from rayfed.topology.drawn import Random, Targets
from rayfed.topology.geometric import Geometric
from rayfed.topology.named import Grid, Ring, Star
from rayfed.topology.walks import Metropolis, Uniform, Walker


def way(walker, steps):
    """Return the positions after so many rounds of one step."""
    position, seen = walker.first(), []
    for round in range(1, steps + 1):
        position = walker.step(position, round)
        seen.append(position)
    return np.array(seen)


def visits(walker, samples, apart):
    return np.bincount(way(walker, samples * apart)[apart - 1 :: apart], minlength=8)


@pytest.mark.parametrize("walk", [Uniform(), Metropolis()], ids=["uniform", "metropolis"])
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
    seen = way(Walker(Graphs(Star(), 8, 0), Uniform()), 600)
    assert (seen == 0).mean() == pytest.approx(0.5, abs=0.06)


def test_a_walker_follows_links_alone():
    graphs = Graphs(Random(p=0.3, every=2, loss=0.1), 15, 0)
    walker = Walker(graphs, Uniform())
    seen = [walker.first(), *way(walker, 150)]
    for round, (here, there) in enumerate(pairwise(seen), start=1):
        assert there in graphs.at(round).neighbours(here)
        around = walker.neighbours(here, round).tolist()
        assert around == sorted({here, *graphs.at(round).neighbours(here).tolist()})
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
    ways = [way(Walker(Graphs(Grid(), 16, seed), Uniform()), 20).tolist() for seed in (0, 0, 1)]
    assert ways[0] == ways[1] != ways[2]
    walker = Walker(Graphs(Ring(), 9, 0), Uniform())
    assert {walker.step(4, 1, ask=ask) for ask in range(20)} == {3, 5}


def test_every_client_may_be_the_first():
    firsts = [Walker(Graphs(Ring(), 5, seed), Uniform()).first() for seed in range(500)]
    assert chisquare(np.bincount(firsts, minlength=5)).pvalue > 1e-3


def test_seconds_are_those_of_the_graph_of_the_moment():
    graphs = Graphs(Geometric(range_m=2000.0, every_s=10.0), 5, 0)
    walker = Walker(graphs, Uniform(speed_m_s=4.0))
    for time_s in (0.0, 500.0):
        way_m = graphs.at(1, time_s).distance(1, 3)
        assert walker.seconds(1, 3, 1, time_s) == pytest.approx(way_m / 4.0)
    assert walker.seconds(1, 3, 1, 0.0) != walker.seconds(1, 3, 1, 500.0)
