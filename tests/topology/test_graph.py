"""Graphs answer as networkx and plain distances do, whichever way they keep their links."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayfed.topology import EdgeList, Near

PAIRS = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=30)
EVERYONE = np.arange(9)


@settings(max_examples=50, deadline=None)
@given(PAIRS)
def test_a_list_of_links_is_the_graph_that_networkx_makes_of_it(pairs):
    graph, expected = EdgeList(9, np.array(pairs, dtype=np.int64)), nx.Graph()
    expected.add_nodes_from(range(9))
    expected.add_edges_from((u, v) for u, v in pairs if u != v)
    assert [graph.neighbours(i).tolist() for i in range(9)] == [
        sorted(expected[i]) for i in range(9)
    ]
    assert graph.degrees(EVERYONE).tolist() == [d for _, d in sorted(expected.degree)]
    assert graph.links.tolist() == sorted(sorted(edge) for edge in expected.edges)
    np.testing.assert_array_equal(graph.matrix.toarray(), nx.to_numpy_array(expected, range(9)))


def around(positions, range_m):
    """Return the links of clients in range, from all distances."""
    far = np.hypot(*(positions[:, None] - positions[None]).transpose(2, 0, 1))
    return np.argwhere(np.triu(far <= range_m, 1))


def test_clients_in_range_are_linked():
    positions = np.random.default_rng(0).random((200, 2)) * 100
    near, listed = Near(positions, 12.0), EdgeList(200, around(positions, 12.0))
    assert len(listed.links) > 200
    np.testing.assert_array_equal(near.links, listed.links)
    ids = np.arange(200)
    np.testing.assert_array_equal(near.degrees(ids), listed.degrees(ids))
    for i in range(200):
        np.testing.assert_array_equal(near.neighbours(i), listed.neighbours(i))


def test_links_that_failed_are_missing_from_every_answer():
    positions = np.random.default_rng(1).random((60, 2)) * 50

    def down(low, high):
        assert (low < high).all()
        return (low + high) % 3 == 0

    near, listed = Near(positions, 12.0), EdgeList(60, around(positions, 12.0))
    left = listed.without(down)
    assert 0 < len(left.links) < len(listed.links)
    assert not down(*left.links.T).any()
    lossy, ids = near.without(down), np.arange(60)
    np.testing.assert_array_equal(lossy.links, left.links)
    np.testing.assert_array_equal(lossy.degrees(ids), left.degrees(ids))
    for i in range(60):
        np.testing.assert_array_equal(lossy.neighbours(i), left.neighbours(i))


def test_a_mended_graph_answers_like_the_list_of_all_its_links():
    positions = np.random.default_rng(2).random((60, 2)) * 50
    more = np.array([[7, 3], [0, 59], [3, 59]])
    near = Near(positions, 8.0)
    assert not {(3, 7), (0, 59), (3, 59)} & set(map(tuple, near.links.tolist()))
    whole = EdgeList(60, np.concatenate([around(positions, 8.0), more]), positions)
    for mended in (near.plus(more), EdgeList(60, near.links, positions).plus(more)):
        np.testing.assert_array_equal(mended.links, whole.links)
        np.testing.assert_array_equal(mended.degrees(EVERYONE), whole.degrees(EVERYONE))
        np.testing.assert_array_equal(mended.matrix.toarray(), whole.matrix.toarray())
        for i in range(60):
            np.testing.assert_array_equal(mended.neighbours(i), whole.neighbours(i))

    def down(low, high):
        return (low + high) % 2 == 0

    left = near.plus(more).without(down)
    np.testing.assert_array_equal(left.links, whole.without(down).links)
    assert left.neighbours(59).tolist() == whole.without(down).neighbours(59).tolist()


def test_a_distance_needs_positions():
    assert Near(np.array([[0.0, 0.0], [3.0, 4.0]]), 1.0).distance(0, 1) == 5.0
    with pytest.raises(ValueError, match="no positions"):
        EdgeList(2, [[0, 1]]).distance(0, 1)
