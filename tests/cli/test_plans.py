"""What a study is about to do, in one line."""

import pytest

from rayfed import api
from rayfed.cli.plans import headline

STUDY = {
    "name": "four",
    "rounds": 3,
    "seeds": [0],
    "problem": {"name": "least-squares", "dataset": {"name": "linear", "features": 2}},
    "clients": {"count": 4},
    "algorithms": ["fedavg"],
}


@pytest.mark.parametrize(
    ("executor", "nodes", "placed"),
    [
        ("serial", (), "; serial"),
        ({"name": "ray", "address": "head:6379"}, [2], "; 1 client actor and the driver (about "),
        ({"name": "ray", "clients_per_actor": 1}, [1, 1], "; 4 client actors (about "),
        (
            {"name": "ray", "address": "head:6379"},
            (),
            "; client actors on the Ray cluster at head:6379",
        ),
    ],
)
def test_numbers_of_a_cluster_are_told_where_its_cpus_are_known(executor, nodes, placed):
    line = headline(api.prepare(api.read(STUDY | {"executor": executor})), nodes)
    assert line.startswith("four: 1 run (1 algorithm, 1 seed), 4 clients, 3 rounds; ")
    assert placed in line
