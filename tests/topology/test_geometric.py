"""Clients in a rectangle are linked where they are in range, by the clock or by rounds."""

import numpy as np
import pytest

from rayfed.topology import Geometric, Graphs, Still


def resolved(**settings):
    return Geometric(**{"range_m": 100.0, "mobility": Still(), "disconnected": "allow"} | settings)


def test_clients_of_the_middle_have_the_expected_degree():
    """(N - 1) pi r^2 / area, counted for clients further than the range from the edges."""
    degrees = []
    for seed in range(20):
        graph = Graphs(resolved(), 400, seed).at(1)
        inner = np.flatnonzero(((graph.positions > 100) & (graph.positions < 900)).all(axis=1))
        degrees += graph.degrees(inner).tolist()
    expected = 399 * np.pi * 0.01
    assert np.mean(degrees) == pytest.approx(expected, rel=0.03)


def test_clients_fill_the_area():
    graph = Graphs(resolved(area_m=(50.0, 2000.0)), 1000, 0).at(1)
    assert (graph.positions > 0).all()
    assert graph.positions.max(axis=0) == pytest.approx([50, 2000], rel=0.02)


def test_the_clock_moves_clients():
    graphs = Graphs(Geometric(range_m=300.0, every_s=10.0), 20, 0)
    assert [graphs.epoch(1, t) for t in (0.0, 9.9, 10.0, 25.0)] == [0, 0, 1, 2]
    assert [graphs.epoch(r, 0.0) for r in (1, 50)] == [0, 0]
    moved = np.hypot(*(graphs.at(1, 10.0).positions - graphs.at(1, 0.0).positions).T)
    assert (moved > 0).all()
    assert (moved <= 20.0).all()  # at most 2 m/s


def test_rounds_move_clients_where_asked():
    graphs = Graphs(Geometric(range_m=300.0, every_s=10.0, round_s=5.0), 20, 0)
    assert [graphs.epoch(r, 1e4) for r in (1, 2, 3, 5)] == [0, 0, 1, 2]


def test_who_stays_is_linked_for_good_unless_links_fail():
    assert Graphs(resolved(), 20, 0).epoch(1, 1e6) == 0
    assert Graphs(resolved(loss=0.1), 20, 0).epoch(1, 7.5) == 7
