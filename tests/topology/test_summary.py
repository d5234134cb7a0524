"""What the graphs of a run are like, in words and in a table."""

import io

import numpy as np
import pytest
from rich.console import Console

from rayfed.topology import Graphs
from rayfed.topology.drawn import Targets
from rayfed.topology.named import Complete, Ring, Star
from rayfed.topology.summary import Pace, Shape, line, regimes, spaced, table
from rayfed.topology.walks import Uniform


def shown(graphs, moments):
    said = io.StringIO()
    Console(file=said, width=200).print(table(regimes(graphs, moments)))
    return [row.split() for row in said.getvalue().splitlines()]


def test_the_shape_of_a_star():
    assert Shape.of(Graphs(Star(), 5, 0).of(0)) == Shape(4, 1, 1, 4, 1.6)


def test_a_graph_that_stays_is_told_once():
    found = list(regimes(Graphs(Complete(), 5, 0), spaced(4, 100, 60.0)))
    assert [(r.epoch, r.round, r.time_s) for r in found] == [(0, 1, 0.0)]
    assert [pace.walk.name for pace in found[0].paces] == ["metropolis", "uniform"]
    assert [pace.slem for pace in found[0].paces] == pytest.approx([0.25, 0.25])
    # away from uniform by 4/5 at first, and by 1/5 after one step
    assert [pace.mixing for pace in found[0].paces] == [1.0, 1.0]


def test_graphs_that_change_are_told_one_by_one():
    graphs = Graphs(Targets(number=5, every=10), 20, 0)
    found = list(regimes(graphs, spaced(5, 31, 0.0)))
    assert [regime.epoch for regime in found] == [0, 1, 2, 3]
    for regime in found:
        degrees = graphs.of(regime.epoch).degrees(np.arange(20))
        assert regime.shape.mean == degrees.mean()


def test_the_table_has_a_line_for_each_graph_and_walk():
    header, first, second = shown(Graphs(Ring(), 6, 0), spaced(3, 10, 0.0))
    assert header[:6] == ["round", "second", "links", "degree", "parts", "walk"]
    assert header[6:] == ["lazy", "lambda_2", "mixes", "in"]
    assert first[:6] == ["1", "0", "6", "2", "(2-2)", "1"]
    assert first[6:9] == ["metropolis", "0.5", "0.750000"]
    assert second[:3] == ["uniform", "0.5", "0.750000"]


def test_the_mixing_time_of_a_large_graph_is_bounded():
    pace = Pace.of(Uniform(lazy=0.5), Graphs(Ring(), 501, 0).of(0))
    assert not pace.exact
    assert "at most" in " ".join(shown(Graphs(Ring(), 501, 0), [(1, 0.0)])[1])


class Split(Ring):
    def ends(self, count):
        return np.array([[0, 1], [1, 2], [3, 4], [4, 5]])


def test_a_graph_in_parts_never_mixes():
    rows = shown(Graphs(Split(disconnected="allow"), 6, 0), [(1, 0.0)])
    assert rows[1][-2:] == ["1.000000", "never"]


def test_a_line():
    assert line(Graphs(Ring(), 6, 0)) == "topology ring: 6 links at first, 2 to a client, 1 part"
    assert line(Graphs(Split(disconnected="allow"), 6, 0)).endswith(", 2 parts")
