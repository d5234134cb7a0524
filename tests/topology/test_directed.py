"""Graphs of arcs: receivers, connectivity, links that fail, and repairs."""

import numpy as np
import pytest
from scipy.stats import chisquare

from rayfed.core.errors import ScenarioError
from rayfed.topology import Directed, Exponential, Graphs, OnePeer, OutDegree, TopologyTrace

RETURN = "graph 0 has no way from client 0 to some other client, or none back; link more clients"


def ahead(graph):
    """Return how many places ahead each arc goes, by sender."""
    return [
        sorted(((b - a) % graph.count for a, b in graph.arcs.tolist() if a == i))
        for i in range(graph.count)
    ]


@pytest.mark.parametrize(("count", "places"), [(2, [1]), (8, [1, 2, 4]), (9, [1, 2, 4, 8])])
def test_exponential_graphs_send_powers_of_two_ahead(count, places):
    graphs = Graphs(Exponential(), count, 0)
    assert ahead(graphs.at(1)) == [places] * count
    assert graphs.fixed
    one = Graphs(OnePeer(), count, 0)
    for round in range(1, 12):
        assert ahead(one.at(round)) == [[places[(round - 1) % len(places)]]] * count


def test_one_peer_may_stay_for_several_rounds():
    graphs = Graphs(OnePeer(every=2), 5, 0)
    assert [ahead(graphs.at(k))[0] for k in range(1, 8)] == [[1], [1], [2], [2], [4], [4], [1]]


@pytest.mark.parametrize("topology", [Exponential(), OnePeer()])
def test_one_client_sends_nothing(topology):
    assert Graphs(topology, 1, 0).at(1).arcs.tolist() == []


def test_receivers_are_uniform_without_oneself_and_without_replacement():
    graphs, counts = Graphs(OutDegree(number=2, every=1), 5, 3), np.zeros((5, 5))
    for epoch in range(400):
        arcs = graphs.of(epoch).arcs
        assert np.bincount(arcs[:, 0]).tolist() == [2] * 5
        np.add.at(counts, tuple(arcs.T), 1)
    assert not counts.diagonal().any()
    assert chisquare(counts[~np.eye(5, dtype=bool)]).pvalue > 1e-3


def test_receivers_stay_unless_they_are_drawn_again():
    assert Graphs(OutDegree(number=2), 5, 3).fixed


def test_more_receivers_than_others_are_refused():
    with pytest.raises(ScenarioError, match="found 5 receivers among 5 clients; give at most 4"):
        Graphs(OutDegree(number=5), 5, 0).at(1)


def test_arcs_without_return_are_refused_or_mended_on_request(tmp_path):
    file = tmp_path / "arcs.csv"
    file.write_text("round,u,v\n1,0,1\n1,1,2\n1,2,1")
    arcs = {"path": str(file), "directed": True}
    with pytest.raises(ScenarioError, match=RETURN):
        Graphs(TopologyTrace(**arcs), 3, 0).check()
    assert Graphs(TopologyTrace(**arcs, disconnected="allow"), 3, 0).at(1).arcs.tolist() == [
        [0, 1], [1, 2], [2, 1],
    ]  # fmt: skip
    mended = Graphs(TopologyTrace(**arcs, disconnected="repair"), 3, 0).at(1)
    assert mended.directed
    assert len(set(mended.components().tolist())) == 1
    assert {(0, 1), (1, 2), (2, 1)} < set(map(tuple, mended.arcs.tolist()))


def test_a_link_that_is_down_takes_both_arcs():
    graph = Directed(3, [[0, 1], [1, 0], [2, 1]])
    assert graph.without(lambda low, high: low == 0).arcs.tolist() == [[2, 1]]
    assert graph.neighbours(1).tolist() == [0, 2]


def test_duplicates_and_loops_are_dropped():
    assert Directed(3, [[2, 1], [2, 1], [0, 0]]).arcs.tolist() == [[2, 1]]
