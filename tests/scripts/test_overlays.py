"""Overlays of silos on a map of links."""

import csv

import networkx as nx
import pytest

from scripts import overlays


@pytest.fixture
def square():
    """Four silos on a square of 100 km, and one 1,000 km away from a corner."""
    graph = nx.Graph()
    for u, v in ("ab", "bc", "cd", "da"):
        graph.add_edge(u, v, distance=100.0)
    graph.add_edge("a", "e", distance=1000.0)
    return graph


def test_paths_have_the_latency_of_their_length_and_share_the_core(square):
    silos = overlays.connections(square)
    assert len(silos.edges) == 10
    assert silos["a"]["b"] == {"latency_s": pytest.approx(0.00485), "mbps": 1000.0}
    assert silos["a"]["c"] == {"latency_s": pytest.approx(0.0057), "mbps": 500.0}
    assert silos["b"]["e"] == {"latency_s": pytest.approx(0.01335), "mbps": 500.0}


def test_star_tree_and_ring(square, tmp_path, monkeypatch):
    monkeypatch.setattr(overlays, "FOLDER", tmp_path)
    nx.write_gml(square, tmp_path / "five.gml")
    overlays.main([str(tmp_path / "five.gml")])
    found = {}
    for kind in ("star", "tree", "ring"):
        with (tmp_path / f"marfoq_2020_overlays.five-{kind}.csv").open() as file:
            found[kind] = list(csv.DictReader(file))
    graphs = {
        kind: nx.DiGraph([(int(row["u"]), int(row["v"])) for row in rows])
        for kind, rows in found.items()
    }
    assert sorted(dict(graphs["star"].to_undirected().degree).values()) == [1, 1, 1, 1, 4]
    assert nx.is_tree(graphs["tree"].to_undirected())
    assert set(graphs["ring"].out_degree()) == {(k, 1) for k in range(5)}
    assert nx.is_strongly_connected(graphs["ring"])
    assert float(found["tree"][0]["mbps"]) == pytest.approx(1000 * 64 / 44_961_717)
