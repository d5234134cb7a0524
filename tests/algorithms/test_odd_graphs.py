"""Methods without a server on graphs of one node, with nodes apart, and arcs without a way back."""

import numpy as np
import pytest

from rayfed.core.errors import ScenarioError
from rayfed.testing import loop
from tests.algorithms import test_gossip
from tests.algorithms.test_gossip import LOCAL, ROWS, after, scenario

data = test_gossip.data
STEPS = ["d-psgd", "dfedavg", "sgp", "choco-sgd", "epidemic"]
ROUNDS = 5


def links(folder, ends, **settings):
    """Return a trace with one graph."""
    rows = [f"1,{u},{v}" for u, v in ends]
    (folder / "links.csv").write_text("\n".join(["round,u,v", *rows]))
    return {"name": "trace", "path": str(folder / "links.csv")} | settings


def alone(node, steps):
    """Return the model of gradient descent on the rows of one node."""
    rows = np.array(ROWS.split(), float).reshape(-1, 5)
    a, y = rows[rows[:, 0] == node, 1:4] / 8, rows[rows[:, 0] == node, 4] / 8
    x = np.zeros(3)
    for _ in range(steps):
        x = x - 0.5 * a.T @ (a @ x - y) / len(y)
    return x


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("weights", ["size", "uniform"])
def test_a_node_without_links_trains_alone_in_steps(data, tmp_path, name, weights):
    """Node 5 has no links; 0, 1 and 2 are a line, 3 and 4 a pair, each a part of its own."""
    graph = links(tmp_path, [(0, 1), (1, 2), (3, 4)], disconnected="allow")
    made = {"name": name, "local": LOCAL, "weights": weights}
    _, nodes = after(data, made, graph, ROUNDS)
    np.testing.assert_allclose(nodes[5], alone(5, ROUNDS), rtol=1e-12)
    pair = links(tmp_path, [(3, 4)], disconnected="allow")
    _, others = after(data, made, pair, ROUNDS)
    np.testing.assert_array_equal(nodes[3:], others[3:])  # whatever other parts do


def test_a_node_without_links_meets_nobody(data, tmp_path):
    graph = links(tmp_path, [(0, 1), (1, 2), (3, 4)], disconnected="allow")
    engine = loop(scenario(data, {"name": "ad-psgd", "local": LOCAL}, graph))
    state, _ = engine.start()
    tasks = 0
    for _ in range(ROUNDS):
        state, _, ended = engine.step(state)
        tasks += sum(int((each.tasks.client == 5).sum()) for each in ended)
    (rows,) = engine.exchange.executor.snapshot(engine.run.folder)
    assert tasks
    np.testing.assert_allclose(rows["x"][rows["ids"] == 5][0], alone(5, tasks), rtol=1e-12)


def test_a_walk_at_a_node_without_links_stays_there(data, tmp_path):
    """Each walk visits the nodes of one part alone."""
    graph = links(tmp_path, [(0, 1), (1, 2), (3, 4)], disconnected="allow")
    made = {"name": "multi-walk", "walks": 6, "home": 5, "local": LOCAL}
    engine = loop(scenario(data, made, graph))
    state, _ = engine.start()
    visited = {walk: [] for walk in range(6)}
    for _ in range(30):
        state, row, _ = engine.step(state)
        visited[int(row["walk"])].append(int(row["node"]))
        assert row["bytes_up"] == 0 or row["node"] != 5
    parts = [{0, 1, 2}, {3, 4}, {5}]
    assert all(any(set(nodes) <= part for part in parts) for nodes in visited.values())
    assert len({min(nodes) for nodes in visited.values()}) > 1


def test_arcs_without_a_way_back(data, tmp_path):
    """On 0, 1, 2 in a row node 0 hears nobody, and the sums of push-sum would gather at node 2."""
    arcs = links(tmp_path, [(0, 1), (1, 2)], directed=True)
    for name in ("sgp", "epidemic"):
        with pytest.raises(ScenarioError, match="link more clients, or set disconnected to repair"):
            loop(scenario(data, {"name": name, "local": LOCAL}, arcs))
    graph = arcs | {"disconnected": "allow"}
    _, nodes = after(data, {"name": "epidemic", "local": LOCAL}, graph, ROUNDS)
    for i in (0, 3, 4, 5):
        np.testing.assert_allclose(nodes[i], alone(i, ROUNDS), rtol=1e-12)
    with pytest.raises(ScenarioError, match="no arcs lead back to client 0 from client 1, so that"):
        loop(scenario(data, {"name": "sgp", "local": LOCAL}, graph))
    ring = links(tmp_path, [(0, 1), (1, 2), (2, 0)], directed=True, disconnected="allow")
    _, nodes = after(data, {"name": "sgp", "local": LOCAL}, ring, ROUNDS)
    np.testing.assert_allclose(nodes[5], alone(5, ROUNDS), rtol=1e-12)


@pytest.mark.parametrize("name", ["d-psgd", "ad-psgd", "multi-walk"])
def test_what_is_advised_against_arcs_is_taken(data, name):
    """Meetings and walks have no mixing, which only some methods may set to uniform."""
    advice = "use sgp, epidemic, a method with mixing: uniform, or a topology of links"
    with pytest.raises(ScenarioError, match=f"{name}.*topology has arcs; {advice}"):
        loop(scenario(data, {"name": name, "local": LOCAL}, "one-peer"))
    mixed = {"name": "d-psgd", "local": LOCAL, "mixing": "uniform"}
    for made in ({"name": "sgp", "local": LOCAL}, {"name": "epidemic", "local": LOCAL}, mixed):
        loop(scenario(data, made, "one-peer"))
