"""Components of a graph, and the shortest links that join them, against searches through all."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayfed.core.rng import Key
from rayfed.topology import EdgeList, Near
from rayfed.topology.connect import components_of, connected

KEY = Key(0, "mend")


def shortest(positions, labels):
    """Return the length of a minimum spanning tree of the parts, from all pairs of clients."""
    far = np.hypot(*(positions[:, None] - positions[None]).transpose(2, 0, 1))
    whole = nx.Graph()
    for i, j in np.argwhere(labels[:, None] < labels[None]):
        a, b = labels[i], labels[j]
        length = min(far[i, j], whole.get_edge_data(a, b, {"weight": np.inf})["weight"])
        whole.add_edge(a, b, weight=length)
    return nx.minimum_spanning_tree(whole).size("weight")


def searched(positions, links):
    """Return the parts, and the links that Kruskal takes of all pairs of clients."""
    whole = nx.Graph()
    whole.add_nodes_from(range(len(positions)))
    whole.add_edges_from(links)
    labels = np.empty(len(positions), dtype=int)
    found = sorted(map(sorted, nx.connected_components(whole)))
    for number, members in enumerate(found):
        labels[members] = number
    pairs = np.stack(np.triu_indices(len(positions), 1), axis=1)
    more = []
    for link in pairs[np.argsort(np.hypot(*np.diff(positions[pairs], axis=1)[:, 0].T))].tolist():
        if not nx.has_path(whole, *link):
            whole.add_edge(*link)
            more.append(link)
    return labels.tolist(), more


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    clients=st.integers(1, 70),
    degree=st.floats(0.01, 12.0),
    width=st.sampled_from([100.0, 2000.0]),
    fail=st.booleans(),
)
def test_parts_and_repairs_are_what_a_search_through_all_pairs_finds(
    seed, clients, degree, width, fail
):
    positions = np.random.default_rng(seed).random((clients, 2)) * [width, 100.0]
    range_m = np.sqrt(degree * width * 100.0 / (np.pi * clients))
    far = np.hypot(*(positions[:, None] - positions[None]).transpose(2, 0, 1))
    links, near = np.argwhere(np.triu(far <= range_m, 1)), Near(positions, range_m)
    if fail:
        near = near.without(lambda low, high: (low * high + high) % 3 == 0)
        links = links[(links[:, 0] * links[:, 1] + links[:, 1]) % 3 != 0]
    labels, more = searched(positions, links.tolist())
    for graph in (near, near.listed()):
        found = components_of(graph)
        assert found.labels.tolist() == labels
        assert found.count == max(labels) + 1
        if found.count > 1:
            whole = connected(graph, found, KEY, 0)
            assert whole.links.tolist() == sorted([*links.tolist(), *more])
            assert components_of(whole).count == 1


def test_of_most_graphs_in_range_parts_are_found_without_all_links():
    positions = np.random.default_rng(0).random((2000, 2)) * 1000
    graph = Near(positions, 30.0)
    found = components_of(graph)
    assert found.count > 1
    connected(graph, found, KEY, 0).neighbours(0)
    assert "_listed" not in vars(graph)


@pytest.mark.parametrize("range_m", [1e-12, 1e-3, 1e9])
def test_parts_are_found_whatever_the_range(range_m):
    positions = np.array([[0.0, -5e6], [0.0, -5e6 + 5e-4], [1e8, 0.0], [3.0, 3.0], [3.0, 3.0]])
    expected = {1e-12: [0, 1, 2, 3, 3], 1e-3: [0, 0, 1, 2, 2], 1e9: [0] * 5}
    assert components_of(Near(positions, range_m)).labels.tolist() == expected[range_m]


def test_who_is_hardly_out_of_range_is_a_part():
    corners = np.array([[0.0, 0.0], [0.72, 0.72]])  # 1.018 apart
    assert components_of(Near(corners, 1.0)).count == 2
    assert components_of(Near(corners, 1.02)).count == 1


def test_parts_are_the_connected_components():
    found = components_of(EdgeList(6, [[0, 3], [3, 5], [1, 2]]))
    assert found.count == 3
    assert found.labels.tolist() == [0, 1, 1, 0, 2, 0]
    assert found.smallest().tolist() == [4]
    assert found.largest().tolist() == [0, 3, 5]


@pytest.mark.parametrize(("clients", "range_m"), [(3, 1.0), (40, 5.0), (150, 6.0)])
@pytest.mark.parametrize("seed", range(3))
def test_with_positions_the_shortest_links_join_the_parts(clients, range_m, seed):
    positions = np.random.default_rng(seed).random((clients, 2)) * 100
    graph = Near(positions, range_m).listed()
    found = components_of(graph)
    assert found.count > 1
    whole = connected(graph, found, KEY, 0)
    assert components_of(whole).count == 1
    more = {tuple(link) for link in whole.links} - {tuple(link) for link in graph.links}
    assert len(more) == found.count - 1
    length = sum(whole.distance(*link) for link in more)
    assert length == pytest.approx(shortest(positions, found.labels))


@pytest.mark.parametrize(
    "positions",
    [
        np.stack([np.arange(6) * 10.0, np.zeros(6)], axis=1),
        np.array([[0.0, 0.0], [0.0, 0.0], [9.0, 0.0], [9.0, 9.0], [0.0, 9.0]]),
    ],
    ids=["on a line", "in the same place"],
)
def test_parts_are_joined_wherever_the_clients_are(positions):
    alone = EdgeList(len(positions), np.empty((0, 2)), positions)
    whole = connected(alone, components_of(alone), KEY, 0)
    assert components_of(whole).count == 1
    assert len(whole.links) == len(positions) - 1
    length = sum(whole.distance(*link) for link in whole.links)
    assert length == pytest.approx(shortest(positions, np.arange(len(positions))))


def test_without_positions_each_smaller_part_gets_a_link_with_the_largest():
    graph = EdgeList(8, [[0, 1], [2, 3], [3, 4], [4, 5]])
    more = []
    for epoch in range(20):
        whole = connected(graph, components_of(graph), KEY, epoch)
        assert components_of(whole).count == 1
        added = [link for link in whole.links.tolist() if link not in graph.links.tolist()]
        assert len(added) == 3
        assert all(len({2, 3, 4, 5} & set(link)) == 1 for link in added)
        more.append(str(added))
        assert str(connected(graph, components_of(graph), KEY, epoch).links) == str(whole.links)
    assert len(set(more)) > 10  # drawn anew in every epoch
