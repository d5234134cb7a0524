"""What the graphs of a run are like, in words and in a table."""

import io
import math
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from rayfed.topology import (
    Complete,
    Directed,
    Exponential,
    Geometric,
    Graphs,
    Metropolis,
    Random,
    Ring,
    Star,
    Targets,
    UniformWalk,
)
from rayfed.topology.summary import GraphSummary, WalkSummary, epoch_summaries, line, spaced, tables


def shown(graphs, moments, own=()):
    """The words of the lines of both tables."""
    said = [io.StringIO(), io.StringIO()]
    for file, table in zip(said, tables(epoch_summaries(graphs, moments, own)), strict=True):
        Console(file=file, width=80).print(table)
    return [[row.split() for row in file.getvalue().splitlines()] for file in said]


def test_the_shape_of_a_star():
    assert GraphSummary.of(Graphs(Star(), 5, 0).of(0)) == GraphSummary(4, 1, 1, 4, 1.6)


def test_a_graph_that_stays_is_told_once():
    found = list(epoch_summaries(Graphs(Complete(), 5, 0), spaced(4, 100, 60.0)))
    assert [(r.epoch, r.round, r.time_s) for r in found] == [(0, 1, 0.0)]
    assert [walk.walk.name for walk in found[0].walks] == ["metropolis", "uniform"]
    assert [walk.second_eigenvalue for walk in found[0].walks] == pytest.approx([0.25, 0.25])
    # away from uniform by 4/5 at first, and by 1/5 after one step
    assert [walk.mixing for walk in found[0].walks] == [1.0, 1.0]


def test_graphs_that_change_are_told_one_by_one():
    graphs = Graphs(Targets(number=5, every=10), 20, 0)
    found = list(epoch_summaries(graphs, spaced(5, 31, 0.0)))
    assert [summary.epoch for summary in found] == [0, 1, 2, 3]
    for summary in found:
        degrees = graphs.of(summary.epoch).degrees(np.arange(20))
        assert summary.graph.mean == degrees.mean()


def test_the_tables_have_a_line_for_each_graph_and_walk():
    graphs, walks = shown(Graphs(Ring(), 6, 0), spaced(3, 10, 0.0))
    assert graphs[0] == ["round", "second", "links", "degree", "parts", "repaired"]
    assert graphs[1:] == [["1", "0", "6", "2", "(2-2)", "1", "no"]]
    assert " ".join(walks[0]) == "round walk lazy lambda_2 mixes in visits (%) hits in covers in"
    # lazy by a half, all that is expected takes twice as long: to the other side of a ring
    # 3 * 3 moves, and at least 5 to the next (LPW, section 2.1)
    first, second = walks[1:]
    assert first[:4] == ["1", "metropolis", "0.5", "0.750000"]
    assert first[5:] == ["16.7", "18", "23-41"]
    assert second == ["uniform", *first[2:]]


def test_a_study_s_own_walks_come_first_and_once():
    graphs = Graphs(Complete(), 4, 0)
    own = [Metropolis(lazy=0.4), UniformWalk(hop_s=3.0), Metropolis(lazy=0.4, hop_s=1.0)]
    _, (_, *rows) = shown(graphs, [(1, 0.0)], own)
    names = [row[-7:-5] for row in rows]
    assert names == [["metropolis", "0.4"], ["uniform", "0"], ["metropolis", "0"]]


def test_what_a_walk_on_a_star_comes_to():
    # half of the visits are to the centre. Without laziness it is a move away from a leaf; from it
    # to one of 4 leaves it takes 2 * 4 - 1. A lazy walk takes twice as many.
    walk = WalkSummary.of(UniformWalk(lazy=0.5), Graphs(Star(), 5, 0).of(0))
    assert walk.visits == pytest.approx((1 / 8, 1 / 2))
    assert walk.hits == pytest.approx(16.0)
    harmonic = 1 + 1 / 2 + 1 / 3 + 1 / 4
    assert walk.covers == pytest.approx((2 * harmonic, 16 * harmonic))


def test_of_one_client_there_is_nowhere_to_go():
    _, (_, row, _) = shown(Graphs(Ring(), 1, 0), [(1, 0.0)])
    assert row[-6:] == ["0", "0.000000", "0", "100", "0", "0"]


def test_the_mixing_time_of_a_large_graph_is_bounded():
    walk = WalkSummary.of(UniformWalk(lazy=0.5), Graphs(Ring(), 501, 0).of(0))
    assert not walk.exact
    assert walk.covers == (walk.hits, math.inf)
    assert replace(walk, hits=math.inf).hitting_text == "never"
    row = shown(Graphs(Ring(), 501, 0), [(1, 0.0)])[1][1]
    assert row[4] == "\N{LESS-THAN OR EQUAL TO}"
    assert row[-3:] == ["\N{GREATER-THAN OR EQUAL TO}", "62,750", "-"]  # 250 * 251 to the farthest


class Around(UniformWalk):
    def chances(self, graph, source, target):
        """Twice as often up as down a ring: not reversible, though all are visited alike."""
        return np.where((target - source) % graph.count == 1, 0.6, 0.3)


def test_what_nobody_knows_of_a_large_walk_that_goes_around_is_left_out():
    ring = Graphs(Ring(), 601, 0)
    walk = WalkSummary.of(Around(), ring.of(0))
    assert walk.visits == pytest.approx((1 / 601, 1 / 601), rel=1e-9)
    assert math.isnan(walk.mixing)
    moves = Around().matrix(ring.of(0)).toarray()[1:, 1:]  # to any client as to 0
    assert walk.hits == pytest.approx(np.linalg.solve(np.eye(600) - moves, np.ones(600)).max())
    _, (_, own, *_) = shown(ring, [(1, 0.0)], [Around()])
    assert own[:3] == ["1", "uniform", "0"]
    assert own[4] == "-"


class Split(Ring):
    def ends(self, count):
        return np.array([[0, 1], [1, 2], [3, 4], [4, 5]])


def test_a_graph_in_parts_never_mixes():
    _, rows = shown(Graphs(Split(disconnected="allow"), 6, 0), [(1, 0.0)])
    assert rows[1][-5:] == ["1.000000", "never", "-", "never", "never"]


def test_arcs_are_those_that_clients_send_along():
    """Clients 2 and 3 send to nobody, so that each is a part of its own."""
    graph = Directed(4, [[0, 1], [0, 2], [0, 3], [1, 0]])
    assert GraphSummary.of(graph) == GraphSummary(4, 3, 0, 3, 1.0, directed=True)
    arcs, walks = shown(Graphs(Exponential(), 8, 0), spaced(3, 10, 0.0))
    assert arcs[0] == ["round", "second", "arcs", "receivers", "parts", "repaired"]
    assert arcs[1:] == [["1", "0", "24", "3", "(3-3)", "1", "no"]]
    assert not walks[1:]


@pytest.mark.parametrize(
    ("topology", "which"),
    [
        (Random(p=1e-9, disconnected="repair"), "it"),
        (Random(p=1e-9, every=3, disconnected="repair"),
         "20 of the first 20 graphs, in rounds 1 to 60"),
        (Geometric(range_m=1e-6, every_s=0.3, disconnected="repair"),
         "20 of the first 20 graphs, until second 6"),
        (Geometric(range_m=1e-6, every_s=900, disconnected="repair"),
         "20 of the first 20 graphs, until second 18000"),
    ],
)  # fmt: skip
def test_a_line_names_the_graphs_that_are_repaired(topology, which):
    text = f"; links are added to connect {which} (disconnected: repair)"
    assert line(Graphs(topology, 6, 0)).endswith(text)


def test_a_line():
    arcs = "topology exponential: 24 arcs at first, 3 from a client, 1 part"
    assert line(Graphs(Exponential(), 8, 0)) == arcs
    assert line(Graphs(Ring(), 6, 0)) == "topology ring: 6 links at first, 2 to a client, 1 part"
    assert line(Graphs(Split(disconnected="allow"), 6, 0)).endswith(", 2 parts")
