"""What every topology, mobility and walk that the plug-in search finds must keep."""

import pickle

import numpy as np
import pytest

from rayfed.core.plugins import find
from rayfed.core.rng import Key
from rayfed.topology import Graphs
from rayfed.topology.geometric import Geometric
from rayfed.topology.named import Grid
from rayfed.topology.walks import Walker

COUNT = 12
MOMENTS = [(1, 0.0), (2, 40.0), (7, 300.0)]
NEEDED = {
    "geometric": {"range_m": 400.0},
    "random": {"p": 0.3},
    "trace": {"path": "contacts.csv"},
    "matrix": {"path": "moves.csv"},
}


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{t},{i},{(i + 1 + t // 30) % COUNT}" for t in (0, 30) for i in range(COUNT)]
    (tmp_path / "contacts.csv").write_text("\n".join(["time,u,v", *rows]))
    links = Graphs(Grid(), COUNT, 0).of(0).matrix.toarray() / 5
    np.savetxt(tmp_path / "moves.csv", links + np.diag(1 - links.sum(axis=1)), delimiter=",")


def made(kind, name, **settings):
    return find(kind)[name](**NEEDED.get(name, {}) | settings)


topologies = pytest.mark.parametrize("name", list(find("topologies")))
walks = pytest.mark.parametrize("name", list(find("walks")))


@topologies
@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_graphs_are_the_same_in_any_order_and_in_any_process(name, loss):
    topology = made("topologies", name, loss=loss, disconnected="repair")
    graphs = Graphs(topology, COUNT, 1)
    seen = [graphs.at(*moment).links.tolist() for moment in MOMENTS]
    other = pickle.loads(pickle.dumps(graphs))
    assert [other.at(*moment).links.tolist() for moment in reversed(MOMENTS)] == seen[::-1]


@topologies
@pytest.mark.parametrize("disconnected", ["repair", "allow"])
def test_both_ends_of_a_link_know_it(name, disconnected):
    graph = Graphs(made("topologies", name, loss=0.1, disconnected=disconnected), COUNT, 1).at(2)
    around = [graph.neighbours(i).tolist() for i in range(COUNT)]
    for i, others in enumerate(around):
        assert others == sorted(set(others) - {i})
        assert all(i in around[j] for j in others)
    assert graph.degrees(np.arange(COUNT)).tolist() == [len(others) for others in around]


@pytest.mark.parametrize("name", list(find("mobilities")))
def test_clients_stay_in_the_area_and_move_as_they_do_alone(name):
    area = (80.0, 30.0)
    many, few = (made("mobilities", name).tracks(n, area, Key(0, "ways")) for n in (9, 2))
    for time_s in (0.0, 500.0, 12.5):
        where = many(time_s)
        assert ((where >= 0) & (where <= area)).all()
        np.testing.assert_array_equal(few(time_s), where[:2])


@walks
def test_rows_are_probabilities_over_the_neighbourhood(name):
    graphs = Graphs(Grid(), COUNT, 0)
    walk = made("walks", name).resolved(graphs)
    graph = graphs.of(0)
    rows = walk.matrix(graph).toarray()
    assert (rows >= 0).all()
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, atol=1e-12)
    assert not rows[(graph.matrix.toarray() + np.eye(COUNT)) == 0].any()


@walks
def test_a_walker_reaches_everybody(name):
    moving = Geometric(range_m=500.0, every_s=60.0, round_s=60.0)
    for topology in (Grid(), moving) if name != "matrix" else (Grid(),):
        walker = Walker(Graphs(topology, COUNT, 0), made("walks", name))
        position, seen = walker.first(), set()
        for round in range(1, 250):
            position = walker.step(position, round)
            seen.add(position)
        assert seen == set(range(COUNT))
