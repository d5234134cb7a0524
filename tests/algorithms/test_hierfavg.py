"""HierFAVG against numbers of an independent program and FedAvg; refused combinations.

With codecs, deadlines and weights it is compared in ``tests/contract/test_combinations.py``.
"""

import numpy as np
import pytest
from scipy.special import ndtri

from rayfed.channel import Draws
from rayfed.cli.forecasts import server_sees
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.testing import loop
from tests.algorithms import test_gossip
from tests.algorithms.test_gossip import LOCAL, ROWS, after, close, scenario

data = test_gossip.data
METHOD = {"name": "hierfavg"}
EF21 = {"name": "top-k", "k": 1, "memory": {"name": "ef21"}}


def test_fixed_point_of_two_edges(data):
    """Two local steps, three edge rounds, nodes 0 to 2 and 3 to 5."""
    x, _ = after(data, METHOD | {"edge_rounds": 3, "local": LOCAL | {"steps": 2}}, None, 60)
    close(x, -0.0116602968063, -1.36792127265, -0.797106544617)


@pytest.mark.parametrize("weights", ["size", "uniform"])
def test_one_edge_is_fedavg(data, weights):
    local = {"local": LOCAL | {"steps": 2}, "weights": weights}
    x, _ = after(data, METHOD | {"edges": 1, "edge_rounds": 3} | local, None, 4)
    fedavg, _ = after(data, {"name": "fedavg"} | local, None, 12)
    np.testing.assert_array_equal(x, fedavg)
    if weights == "size":
        close(x, -0.0269479475001, -1.2603603702, -0.709659738806)


@pytest.mark.parametrize(
    ("edges", "groups", "expected"),
    [
        (4, [], [0, 0, 1, 1, 2, 3]),
        (9, [], [0, 1, 2, 3, 4, 5]),
        ([1, 0, 1, 0, 2, 2], [], [1, 0, 1, 0, 2, 2]),
        ("groups", [{"name": "a", "ids": [1, 4]}, {"name": "b", "ids": [5]}], [0, 1, 0, 0, 1, 2]),
        ("groups", [{"ids": [0, 1, 2]}, {"ids": [3, 4, 5]}], [0, 0, 0, 1, 1, 1]),
        ("groups", [], [0] * 6),
    ],
)
def test_clients_of_edge_servers(data, edges, groups, expected):
    given = scenario(data, METHOD | {"edges": edges, "local": LOCAL}, None)
    run = loop(given | {"clients": {"groups": groups}}).run
    assert run.training.algorithm.edge_of(np.arange(6)).tolist() == expected
    assert server_sees(run).startswith("means by edge server")


@pytest.mark.parametrize(
    ("edges", "text"),
    [([0, 1], "found 2 edges for 6 clients"), ([0, 2, 0, 2, 0, 0], "edge 1 is empty"), (0, "0")],
)
def test_edges_that_do_not_fit_are_refused(data, edges, text):
    with pytest.raises(ScenarioError, match=text) as refused:
        loop(scenario(data, METHOD | {"edges": edges, "local": LOCAL}, None))
    assert refused.value.place == "algorithms.0.edges"


@pytest.mark.parametrize(
    ("place", "need", "more"),
    [
        ("participation.late", "one Ask", {"participation": {"deadline_s": 2, "late": "stale"}}),
        ("participation.retry", "asked first", {"participation": {"retries": 1, "retry": "other"}}),
        ("participation.correct", "exact weighted mean", {"participation": {"correct": "known"}}),
        ("uplink", "exact weighted mean", {"uplink": [EF21]}),
        ("uplink", "server can read", {"uplink": [{"name": "secure-sum", "range": 4.0}]}),
        ("downlink", "exactly what the server sends", {"downlink": ["natural"]}),
        ("aggregate", "exact weighted mean", {"aggregate": "median"}),
        ("server", "transfer times", {"server": {"uploads_mbps": 3}}),
    ],
)
def test_parts_of_a_single_server_are_refused(data, place, need, more):
    with pytest.raises(ScenarioError, match=f"needs .*{need}") as refused:
        loop(scenario(data, METHOD | {"local": LOCAL}, None, **more))
    assert refused.value.place.startswith(place)


# -- faults ------------------------------------------------------------------------------------


EDGES, STEPS, SEED = [1, 0, 0, 1, 0, 1], [1, 2, 3, 1, 2, 2], 7
ROUNDS, EDGE_ROUNDS = 3, 2


def noise(v, i, round, number):
    """Return noise alone, keyed by client, round and edge round."""
    draws = Draws(Key(SEED, "faults"), np.array([i]), round, number, round).sub("0").sub("delta")
    return 2.0 * ndtri(draws.uniforms(len(v)))[0]


WRONG = {
    "scale": ({"factor": 3.0}, lambda v, *_: 3 * v),
    "bit-flip": ({}, lambda v, *_: -v),
    "noise": ({"alone": True, "deviation": 2.0}, noise),
    "not-a-number": ({}, lambda v, *_: np.nan * v),
    "replay": ({}, None),
    "silent": ({}, None),
}
"""Settings of faults, and the upload in place of v."""


def right(i, x):
    """Return the upload of client i after its local steps from x."""
    rows = np.array(ROWS.split(), float).reshape(-1, 5) / 8
    a, y, own = rows[rows[:, 0] == i / 8, 1:4], rows[rows[:, 0] == i / 8, 4], x
    for _ in range(STEPS[i]):
        own = own - 0.5 * a.T @ (a @ own - y) / len(y)
    return x - own


def program(fault, faulty, start, mass):
    """Yield the model after each round: one client after the other, edge by edge."""
    x, stored = np.zeros(3), {}

    def sent(i, v, round, number):
        active = i in faulty and round >= start
        if fault == "replay":
            stored[i] = stored.get(i, v) if active else v
            return stored[i]
        return WRONG[fault][1](v, i, round, number) if active else v

    for round in range(1, ROUNDS + 1):
        models, heard = np.tile(x, (2, 1)), np.zeros(2)
        heard_of = [i for i in range(6) if fault != "silent" or i not in faulty or round < start]
        for number in range(EDGE_ROUNDS):
            sums, total = np.zeros((2, 3)), np.zeros(2)
            for i in heard_of:
                sums[EDGES[i]] += mass[i] * sent(i, right(i, models[EDGES[i]]), round, number)
                total[EDGES[i]] += mass[i]
            some = total > 0
            models[some] -= sums[some] / total[some, None]
            heard += total
        x = np.average(models, axis=0, weights=heard) if heard.any() else x
        yield x


@pytest.mark.parametrize("weights", ["size", "uniform"])
@pytest.mark.parametrize("faulty", [[1, 5], [0, 3, 5], [0, 1, 2, 3, 4, 5]])
@pytest.mark.parametrize("start", [1, 2])
@pytest.mark.parametrize("fault", list(WRONG))
def test_faulty_clients_of_edge_servers(data, fault, start, faulty, weights):
    """Some clients of both edge servers are faulty, all of one, or all clients."""
    groups = [{"ids": [i], "local": {"steps": steps}} for i, steps in enumerate(STEPS)]
    faults = [{"name": fault, "ids": faulty, "start": start} | WRONG[fault][0]]
    made = METHOD | {"edges": EDGES, "edge_rounds": EDGE_ROUNDS, "local": LOCAL, "weights": weights}
    clients = {"groups": groups, "faults": faults}
    engine = loop(scenario(data, made, None, clients=clients, seeds=[SEED]))
    mass = [2.0, 3, 4, 5, 6, 8] if weights == "size" else [1.0] * 6
    state, _ = engine.start()
    for expected in program(fault, faulty, start, mass):
        state, _, _ = engine.step(state)
        np.testing.assert_allclose(state.state["x"], expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("fault", ["ipm", "alie", "mimic"])
def test_colluding_clients_of_edge_servers_are_refused(data, fault):
    faults = {"clients": {"faults": [{"name": fault, "count": 1}]}}
    with pytest.raises(ScenarioError, match="needs one mean over all clients, but 'hierfavg'"):
        loop(scenario(data, METHOD | {"local": LOCAL}, None, **faults))


def test_wrong_labels_at_edge_servers(tmp_path):
    """Clients 1 and 2 with wrong labels, and a file in which class c of theirs is 2 - c."""
    rng, models = np.random.default_rng(0), []
    client, features = np.repeat(np.arange(4), [2, 3, 4, 5]), rng.normal(size=(14, 2))
    y = np.tile([0, 1, 2], 5)[:14]
    flipped = np.where(np.isin(client, [1, 2]), 2 - y, y)
    faults = [{"name": "label-flip", "ids": [1, 2]}]
    for name, target, wrong in (("right", y, faults), ("wrong", flipped, [])):
        rows = [f"{i},{a},{b},{c}" for i, (a, b), c in zip(client, features, target, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["client,a,b,y", *rows]))
        table = {"name": "table", "path": str(tmp_path / f"{name}.csv"), "client": "client"}
        made = scenario(table, METHOD | {"edges": [0, 0, 1, 1], "local": LOCAL}, None)
        made["problem"] = {"name": "softmax-regression", "dataset": table, "test": 0.0}
        engine = loop(made | {"clients": {"faults": wrong}})
        state, _ = engine.start()
        for _ in range(3):
            state, _, _ = engine.step(state)
        models.append(state.state["x"])
    np.testing.assert_array_equal(*models)
    assert models[0].any()
