"""HierFAVG against numbers of an independent program and FedAvg; refused combinations.

With codecs, deadlines and weights it is compared in ``tests/contract/test_combinations.py``.
"""

import numpy as np
import pytest

from rayfed.cli.forecasts import server_sees
from rayfed.core.errors import ScenarioError
from rayfed.testing import loop
from tests.algorithms import test_gossip
from tests.algorithms.test_gossip import LOCAL, after, close, scenario

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
