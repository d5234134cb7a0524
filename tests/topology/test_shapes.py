"""Named graphs against networkx, and the laws of random ones."""

from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from scipy.stats import chisquare

from rayfed.core.errors import ScenarioError
from rayfed.topology import (
    Complete,
    Graphs,
    Grid,
    OutDegree,
    Random,
    Regular,
    Ring,
    SmallWorld,
    Star,
    Targets,
)
from rayfed.topology.shapes import _pairs


def grid(rows, columns):
    made = nx.grid_2d_graph(rows, columns)
    return nx.relabel_nodes(made, {(r, c): r * columns + c for r, c in made})


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        (Complete(), nx.complete_graph(7)),
        (Ring(), nx.cycle_graph(7)),
        (Star(), nx.star_graph(6)),
        (Grid(columns=4), grid(3, 4)),
        (Grid(), grid(4, 4)),
        (Grid(columns=1), nx.path_graph(5)),
        (Ring(), nx.path_graph(2)),
    ],
)
def test_links_are_those_of_networkx(topology, expected):
    graph = Graphs(topology, len(expected), 0).at(1)
    assert graph.links.tolist() == sorted(sorted(edge) for edge in expected.edges)


def test_the_last_row_of_a_grid_may_be_short():
    graph = Graphs(Grid(columns=3), 5, 0).at(1)
    assert graph.links.tolist() == [[0, 1], [0, 3], [1, 2], [1, 4], [3, 4]]


@pytest.mark.parametrize("topology", [Complete(), Ring(), Star(), Grid()])
def test_one_client_has_no_links_and_that_is_fine(topology):
    assert Graphs(topology, 1, 0).at(1).degrees(np.arange(1)).tolist() == [0]


def test_they_stay_as_they_are():
    assert Graphs(Ring(every=2), 5, 0).epoch(9, 1e6) == 0


def test_more_links_than_memory_holds_are_refused():
    with pytest.raises(ScenarioError, match="49,995,000 links, but the limit is 20,000,000"):
        Graphs(Complete(), 10_000, 0).at(1)


def mean_degree(topology, clients, draws):
    graphs, ids = Graphs(topology, clients, 0), np.arange(clients)
    return np.mean([graphs.of(epoch).degrees(ids).mean() for epoch in range(draws)])


@pytest.mark.parametrize(("number", "degree"), [(5, 8.31), (10, 14.25)])
def test_picked_targets_make_the_published_mean_degrees(number, degree):
    """(N - 1)(1 - (1 - M/N)^2) for N = 20; over 400 draws the standard error is about 0.015."""
    found = mean_degree(Targets(number=number, disconnected="allow"), 20, 400)
    assert found == pytest.approx(degree, abs=0.06)


def test_picks_are_uniform_without_replacement():
    """Three clients pick two of three: each picks each pair of {0, 1, 2} equally often."""
    topology, counts = Targets(number=2), {}
    for draw in range(600):
        ends = topology.ends(3, np.random.default_rng(draw))
        for client in range(3):
            picked = tuple(sorted(ends[ends[:, 0] == client, 1].tolist()))
            counts[client, picked] = counts.get((client, picked), 0) + 1
    assert set(counts) == {(i, p) for i in range(3) for p in combinations(range(3), 2)}
    assert chisquare(list(counts.values())).pvalue > 1e-3


def test_who_picks_everybody_is_linked_with_everybody():
    assert len(Graphs(Targets(number=6), 6, 0).at(1).links) == 15


def test_links_by_chance_are_as_many_as_expected():
    sizes = np.array(
        [len(Random(p=0.3).ends(30, np.random.default_rng(draw))) for draw in range(300)]
    )
    assert sizes.mean() == pytest.approx(0.3 * 435, abs=4 * (435 * 0.21 / 300) ** 0.5)
    assert sizes.var() == pytest.approx(435 * 0.21, rel=0.35)


def test_every_pair_is_as_likely():
    counts = np.zeros((12, 12), dtype=np.int64)
    for draw in range(1500):
        np.add.at(counts, tuple(Random(p=0.1).ends(12, np.random.default_rng(draw)).T), 1)
    assert chisquare(counts[np.triu_indices(12, 1)]).pvalue > 1e-3
    assert not np.tril(counts).any()


def test_links_may_be_as_rare_as_can_be():
    assert Random(p=1e-300).ends(50, np.random.default_rng(0)).shape == (0, 2)


def test_a_sure_link_is_there():
    assert len(Graphs(Random(p=1.0), 9, 0).at(1).links) == 36


def test_pairs_are_numbered_in_order():
    assert _pairs(np.arange(10), 5).tolist() == [list(p) for p in combinations(range(5), 2)]


def test_a_small_world_without_rewiring_is_a_lattice():
    graph = Graphs(SmallWorld(neighbours=4, rewire=0.0), 9, 0).at(1)
    assert graph.neighbours(0).tolist() == [1, 2, 7, 8]
    rewired = Graphs(SmallWorld(neighbours=4, rewire=0.5), 9, 0).at(1)
    assert len(rewired.links) == len(graph.links)
    assert str(rewired.links) != str(graph.links)


def test_they_are_drawn_anew_every_so_many_rounds():
    graphs = Graphs(Targets(number=5, every=10), 20, 0)
    drawn = [str(graphs.at(r).links) for r in (1, 10, 11, 20, 21)]
    assert drawn[0] == drawn[1]
    assert drawn[2] == drawn[3]
    assert len(set(drawn)) == 3


@pytest.mark.parametrize(
    ("topology", "line"),
    [
        (Targets(number=7), "topology.number: found 7 picks among 6 clients; give at most 6"),
        (SmallWorld(neighbours=6), "topology.neighbours: found 6 neighbours among 6 clients"),
    ],
)
def test_what_does_not_fit_the_population_is_refused(topology, line):
    with pytest.raises(ScenarioError, match=line):
        Graphs(topology, 6, 0).at(1)


@pytest.mark.parametrize(
    "topology", [Regular(degree=1), SmallWorld(neighbours=2), OutDegree(number=1)]
)
def test_a_single_client_needs_more(topology):
    with pytest.raises(ScenarioError, match=r"among 1 clients.*; use more clients"):
        Graphs(topology, 1, 0).at(1)


def test_half_of_an_odd_number_is_refused():
    with pytest.raises(ScenarioError, match="neighbours: found 3, an odd number"):
        SmallWorld(neighbours=3)


def test_regular_graphs_have_one_degree_and_are_drawn_anew():
    graphs = Graphs(Regular(degree=3, every=1), 10, 0)
    drawn = [graphs.of(epoch) for epoch in range(5)]
    assert all(graph.degrees(np.arange(10)).tolist() == [3] * 10 for graph in drawn)
    assert len({str(graph.links.tolist()) for graph in drawn}) == 5


@pytest.mark.parametrize(("degree", "count"), [(3, 5), (6, 6)])
def test_regular_graphs_that_do_not_exist_are_refused(degree, count):
    with pytest.raises(ScenarioError, match=rf"found degree {degree} among {count} clients"):
        Graphs(Regular(degree=degree), count, 0).at(1)
