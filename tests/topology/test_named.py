"""Named graphs, against networkx."""

import networkx as nx
import numpy as np
import pytest

from rayfed.core.errors import ScenarioError
from rayfed.topology import Graphs
from rayfed.topology.named import Complete, Grid, Ring, Star


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
