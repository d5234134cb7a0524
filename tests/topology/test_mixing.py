"""Mixing matrices: exact weights, invariants, and the bits of a product."""

from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest

from rayfed.topology import Complete, Directed, EdgeList, Graphs, Random, Ring
from rayfed.topology import mixing as module
from rayfed.topology.mixing import evenness, mixing, product, with_missing

MASS = np.array([2.0, 3, 4, 5, 6, 8])


def test_equal_masses_give_metropolis_weights():
    graph = EdgeList(4, [[0, 1], [1, 2], [1, 3]])
    third = 1 / 4  # 1 / (1 + the larger degree)
    expected = [[3 / 4, third, 0, 0], [third] * 4, [0, third, 3 / 4, 0], [0, third, 0, 3 / 4]]
    np.testing.assert_allclose(mixing(graph, np.ones(4)).toarray(), expected, atol=1e-16)


def test_the_complete_graph_takes_the_mean_by_mass():
    w = mixing(Graphs(Complete(), 6, 0).at(1), MASS).toarray()
    np.testing.assert_allclose(w, np.tile(MASS / MASS.sum(), (6, 1)), atol=1e-15)


@pytest.mark.parametrize("rule", ["symmetric", "lazy", "uniform"])
def test_rows_add_up_to_one_and_the_mean_by_mass_is_kept(rule):
    graph = Graphs(Random(p=0.5, disconnected="repair"), 6, 1).at(1)
    w = mixing(graph, MASS, rule).toarray()
    np.testing.assert_allclose(w.sum(axis=1), 1, atol=1e-15)
    assert (w >= 0).all()
    around = np.array([MASS[[i, *graph.neighbours(i)]].sum() for i in range(6)])
    kept = MASS * around if rule == "uniform" else MASS
    np.testing.assert_allclose(kept @ w, kept, rtol=1e-15)


def test_uniform_weights_are_the_share_of_the_neighbourhood():
    w = mixing(Graphs(Ring(), 6, 0).at(1), MASS, "uniform").toarray()
    np.testing.assert_allclose(w[1, [0, 1, 2]], np.array([2, 3, 4]) / 9, rtol=1e-15)


ARCS = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 3), (1, 4)]


def test_columns_of_push_add_up_to_one_and_ratios_tend_to_the_mean():
    """Kempe et al. 2003 with x_i = 2^i, whose mean is 10.5."""
    w = mixing(Directed(6, ARCS), np.ones(6), "push").toarray()
    np.testing.assert_allclose(w.sum(axis=0), 1, rtol=1e-15)
    sums = np.stack([2.0 ** np.arange(6), np.ones(6)], axis=1)
    x, mass = (np.linalg.matrix_power(w, 10) @ sums).T
    np.testing.assert_allclose((x / mass)[[0, 3]], [10.6616444742, 10.4468107162], rtol=1e-11)
    x, mass = (np.linalg.matrix_power(w, 400) @ sums).T
    np.testing.assert_allclose(x / mass, 10.5, rtol=1e-12)


def test_push_keeps_the_mean_by_mass_and_uniform_takes_the_mean_of_what_came():
    graph = Directed(6, ARCS)
    w = mixing(graph, MASS, "push").toarray()
    np.testing.assert_allclose(MASS @ w, MASS, rtol=1e-15)
    np.testing.assert_allclose(w[3], np.array([2 / 3, 0, 4 / 2, 5 / 2, 0, 0]) / 5, rtol=1e-15)
    w = mixing(graph, MASS, "uniform").toarray()
    np.testing.assert_allclose(w[3], np.array([2, 0, 4, 5, 0, 0]) / 11, rtol=1e-15)


@pytest.mark.parametrize("rule", ["symmetric", "lazy", "uniform"])
def test_weights_of_missing_messages(rule):
    """Node 1 hears 0 but not 2, and 2 hears nobody."""
    graph = Graphs(Ring(), 4, 0).at(1)
    w = mixing(graph, MASS[:4], rule)
    arcs = [(0, 1), (0, 3), (1, 0), (1, 2), (2, 1), (2, 3), (3, 0), (3, 2)]  # receiver, sender
    heard = np.array([arc not in [(1, 2), (2, 1), (2, 3)] for arc in arcs])
    found, full = with_missing(w, heard, rule).toarray(), w.toarray()
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-15)
    np.testing.assert_array_equal(found[[0, 3]], full[[0, 3]])
    assert found[2].tolist() == [0, 0, 1, 0]
    own = full[1, 1] + full[1, 2]
    expected = [full[1, 0], own, 0, 0] if rule != "uniform" else [2 / 5, 3 / 5, 0, 0]
    np.testing.assert_allclose(found[1], expected, rtol=1e-15)
    np.testing.assert_array_equal(w.toarray(), full)


def test_links_that_miss_in_both_directions_keep_the_mean_by_mass():
    w = mixing(Graphs(Ring(), 6, 0).at(1), MASS)
    receiver = np.arange(6).repeat(2)
    heard = ~np.isin(receiver, [2]) & ~np.isin(w.tocoo().col[w.tocoo().row != w.tocoo().col], [2])
    np.testing.assert_allclose(
        MASS @ with_missing(w, heard, "symmetric").toarray(), MASS, rtol=1e-15
    )


def test_a_node_without_links_keeps_its_own():
    for rule in ("symmetric", "lazy", "uniform", "push"):
        w = mixing(EdgeList(3, [[0, 1]]), np.ones(3), rule).toarray()
        assert w[2].tolist() == [0, 0, 1]
    assert mixing(EdgeList(1, np.empty((0, 2))), np.ones(1)).toarray().tolist() == [[1.0]]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_sparse_product_has_the_bits_of_a_plain_loop(dtype):
    """Sums are in the order of ids, and do not depend on which other rows are computed."""
    graph = EdgeList(40, np.array(nx.random_regular_graph(6, 40, seed=1).edges))
    w = mixing(graph, np.arange(1.0, 41)).astype(dtype)
    x = np.random.default_rng(0).normal(size=(40, 33)).astype(dtype)
    dense = w.toarray()
    expected = np.zeros_like(x)
    for i in range(40):
        for j in range(40):
            if dense[i, j]:
                expected[i] += dense[i, j] * x[j]
    np.testing.assert_array_equal(w @ x, expected)
    np.testing.assert_array_equal(w[[3, 17]] @ x, expected[[3, 17]])


@pytest.mark.parametrize("shape", [(6,), (6, 1), (6, 5), (6, 0)])
@pytest.mark.parametrize("narrow", [1, 3, 64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_in_pieces_have_the_bits_of_a_loop_in_the_order_of_ids(
    shape, narrow, dtype, monkeypatch
):
    monkeypatch.setattr(module, "_NARROW", narrow)
    monkeypatch.setattr(module, "caches", lambda: SimpleNamespace(own=0))
    w = mixing(Directed(6, ARCS), MASS, "uniform").astype(dtype)
    rows = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    expected = np.zeros_like(rows)
    for i in range(6):
        for j in range(6):
            if w[i, j]:
                expected[i] += w[i, j] * rows[j]
    found = product(w, rows)
    assert found.dtype == dtype
    assert found.shape == shape
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("rule", ["symmetric", "lazy", "uniform"])
def test_influence_is_even_where_the_mean_by_mass_is_kept(rule):
    """Uniform weights keep the mean by m_i S_i, in place of m_i."""
    graph = Graphs(Random(p=0.5, disconnected="repair"), 6, 1).at(1)
    share, kept = MASS / MASS.sum(), MASS
    if rule == "uniform":
        kept = MASS * [MASS[[i, *graph.neighbours(i)]].sum() for i in range(6)]
    kept = kept / kept.sum()
    expected = 1 / np.sum(kept**2 / share)
    assert evenness(mixing(graph, MASS, rule), MASS) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("count", [100, 300])
def test_influence_on_graphs_that_mix_slowly_is_the_left_eigenvector(count):
    """In a ring a thousand steps are far too few; one message in thirty is missed."""
    ring = EdgeList(count, [[i, (i + 1) % count] for i in range(count)])
    heard = np.random.default_rng(count).random(2 * count) > 0.03
    w = with_missing(mixing(ring, np.ones(count)), heard, "symmetric")
    system = np.vstack([w.toarray().T - np.eye(count), np.ones(count)])
    left = np.linalg.lstsq(system, np.append(np.zeros(count), 1.0), rcond=None)[0]
    found = evenness(w, np.ones(count))
    if count == 300:  # not settled after so many products: no number is better than a wrong one
        assert np.isnan(found)
    else:
        assert found == pytest.approx(1 / (count * np.sum(left**2)), rel=1e-6)


def test_influence_in_several_parts_and_of_one_node():
    """Node 2 hears nobody and 3 hears it alone: the pair 0, 1 keeps its half of the mass."""
    w = mixing(EdgeList(4, [[0, 1], [2, 3]]), np.ones(4))
    heard = np.array([True, True, False, True])
    assert evenness(w, np.ones(4)) == 1
    expected = 1 / (4 * (0.25**2 + 0.25**2 + 0.5**2))
    found = evenness(with_missing(w, heard, "symmetric"), np.ones(4))
    assert found == pytest.approx(expected, rel=1e-9)
    assert evenness(mixing(EdgeList(1, []), np.ones(1)), np.ones(1)) == 1
