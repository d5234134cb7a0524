"""Links from a file: each graph holds from its time on, and a bad row is one line."""

import networkx as nx
import numpy as np
import pytest

from rayfed.core.errors import ScenarioError
from rayfed.topology import Graphs, TopologyTrace

ROWS = "time,u,v\n10,0,2\n0,0,1\n0,1,2\n10,2,1\n25.5,1,0\n25.5,0,2\n"


@pytest.fixture
def trace(tmp_path):
    """Return a function that makes the graphs of three clients of a file."""

    def make(text, **settings):
        path = tmp_path / "contacts.csv"
        path.write_text(text)
        return Graphs(TopologyTrace(path=str(path), **settings), 3, 0)

    return make


def test_a_graph_holds_until_the_next(trace):
    graphs = trace(ROWS)
    first, second, third = [[0, 1], [1, 2]], [[0, 2], [1, 2]], [[0, 1], [0, 2]]
    for time_s, links in [(0, first), (9.9, first), (10, second), (25.4, second), (1e6, third)]:
        assert graphs.at(1, time_s).links.tolist() == links
    assert [graphs.epoch(r, 0.0) for r in (1, 99)] == [0, 0]


def test_the_first_graph_holds_before_its_time(trace):
    assert trace("time,u,v\n5,0,1\n5,1,2\n").at(1, 0.0).links.tolist() == [[0, 1], [1, 2]]


def test_graphs_may_follow_rounds(trace):
    graphs = trace(ROWS.replace("time", "round"))
    assert [graphs.epoch(r, 1e9) for r in (1, 9, 10, 25, 26)] == [0, 0, 1, 1, 2]


def test_a_trace_in_parts_is_refused_or_mended(trace):
    with pytest.raises(ScenarioError, match="client 2 has no link in graph 0"):
        trace("time,u,v\n0,0,1\n").at(1)
    assert len(trace("time,u,v\n0,0,1\n", disconnected="repair").at(1).links) == 2


def test_every_graph_of_a_trace_is_looked_at_before_a_run(trace):
    with pytest.raises(ScenarioError, match="client 2 has no link in graph 1"):
        trace(f"{ROWS}9,0,1\n").check()
    trace(ROWS).check()


WRONG = {
    "no number": ("oops,0,2", "row 2: time is 'oops'; give a number of at least 0"),
    "no time": (",0,2", "row 2: time is 'nan'"),
    "before the start": ("-1,0,2", "row 2: time is '-1'"),
    "nobody": ("1,0,3", "row 2: v is '3'; ids are whole numbers from 0 to 2"),
    "less than nobody": ("1,-1,2", "row 2: u is '-1'"),
    "half a client": ("1,0.5,2", "row 2: u is '0.5'"),
    "an empty cell": ("1,0,", "row 2: v is 'nan'"),
    "a loop": ("1,2,2", "row 2: links client 2 with itself; drop the row"),
    "more cells": ("1,0,2,4", "line 3 has 4 cells, but the header has 3; drop"),
}


@pytest.mark.parametrize(("row", "line"), WRONG.values(), ids=WRONG.keys())
def test_a_bad_row_is_named(trace, row, line):
    with pytest.raises(ScenarioError) as refused:
        trace(f"time,u,v\n0,0,1\n{row}\n").at(1)
    assert "contacts.csv: " in str(refused.value)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("t,u,v\n0,0,1\n", r"has the columns t, u, v; give u and v, with time or round"),
        ("time,u,v\n", "has no links"),
        ("", "cannot be read as CSV"),
        (
            "time,u,v\n1700000000,0,1\n",
            r"begins at 1.7e\+09 s, which looks like seconds since 1970; subtract the time",
        ),
        ("time,u,v\n0,0,1,2\n", "line 2 has 4 cells, but the header has 3; drop what is"),
    ],
)
def test_a_file_that_is_no_trace(trace, text, line):
    with pytest.raises(ScenarioError, match=line):
        trace(text).at(1)


def test_a_missing_file():
    with pytest.raises(ScenarioError, match=r"nowhere.csv: cannot be read: No such file"):
        Graphs(TopologyTrace(path="nowhere.csv"), 3, 0).at(1)


def test_names_keep_their_zeros(tmp_path):
    """Client 1001, not 01001, meets NA."""
    path = tmp_path / "contacts.csv"
    path.write_text("time,u,v\n0,01001,1001\n0,1001,NA\n")
    trace = TopologyTrace(path=str(path)).named(("01001", "1001", "NA"))
    assert Graphs(trace, 3, 0).at(1, 0.0).links.tolist() == [[0, 1], [1, 2]]


def test_without_a_clock_the_graph_never_changes(trace):
    graphs = trace("u,v\n0,1\n1,2\n")
    assert graphs.fixed
    assert graphs.at(7).links.tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize("kind", ["graphml", "gml"])
@pytest.mark.parametrize("names", [range(5), ["d", "b", "a", "c", "e"]])
def test_graphs_of_other_programs(tmp_path, kind, names):
    """Clients are nodes in the order of the file, unless their names are ids."""
    graph = nx.Graph()
    nx.add_path(graph, names, latency_s=0.25)
    path = tmp_path / f"links.{kind}"
    getattr(nx, f"write_{kind}")(graph, path)
    graphs = Graphs(TopologyTrace(path=str(path)), 5, 0)
    assert graphs.at(1).links.tolist() == [[0, 1], [1, 2], [2, 3], [3, 4]]
    latency_s, mbps = graphs.routes(0).of(np.array([1, 0]), np.array([0, 4]))
    assert latency_s.tolist() == [0.25, 0.0]
    assert mbps.tolist() == [np.inf, np.inf]


def test_a_damaged_graph_is_one_line(tmp_path):
    path = tmp_path / "links.graphml"
    path.write_text("<graphml")
    with pytest.raises(
        ScenarioError, match=r"links\.graphml: cannot be read as a graph"
    ) as refused:
        Graphs(TopologyTrace(path=str(path)), 5, 0).at(1)
    assert "\n" not in str(refused.value)


def test_routes_are_those_of_each_direction(tmp_path):
    (tmp_path / "links.csv").write_text("round,u,v,mbps\n1,0,1,2\n1,1,0,8\n5,0,1,4\n5,1,0,4\n")
    graphs = Graphs(TopologyTrace(path=str(tmp_path / "links.csv"), directed=True), 2, 0)
    both = np.array([0, 1]), np.array([1, 0])
    assert [graphs.routes(k).of(*both)[1].tolist() for k in (0, 1)] == [[2, 8], [4, 4]]


@pytest.mark.parametrize(
    ("head", "cell", "line"),
    [
        ("latency_s", "-1", "row 1: latency_s is '-1'; give a number of at least 0"),
        ("mbps", "0", "row 1: mbps is '0'; give a number above 0"),
    ],
)
def test_ways_have_seconds_and_bandwidths(tmp_path, head, cell, line):
    (tmp_path / "links.csv").write_text(f"u,v,{head}\n0,1,{cell}\n")
    with pytest.raises(ScenarioError, match=line):
        Graphs(TopologyTrace(path=str(tmp_path / "links.csv")), 2, 0).at(1)
