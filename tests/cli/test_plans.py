"""What a study is about to do, in one line."""

import pytest

from rayfed import api
from rayfed.cli.forecasts import data
from rayfed.cli.plans import headline, swept

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


def test_what_was_found_of_files_clients_and_rows(tmp_path):
    for name, count in {"train/a": 3, "train/b": 2, "val/a": 1, "test/a": 2}.items():
        path = tmp_path / "sites" / f"{name}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x,y\n" + "1,2\n" * count)
    problem = {
        "name": "least-squares",
        "dataset": {"name": "table", "path": str(tmp_path / "sites")},
    }
    study = {key: value for key, value in STUDY.items() if key != "clients"} | {"problem": problem}
    assert data(api.prepare(api.read(study))) == (
        "data: 4 files, 2 clients (a, b), 5 rows for training, 1 for validation, "
        "2 held out by clients, 1 client without held-out rows"
    )
    assert data(api.prepare(api.read(STUDY))).startswith("data: 4 clients, ")
    searched = {"search": {"algorithms.*.local.lr": {"log": [0.01, 1]}}, "sweep": {"trials": 2}}
    assert ", by validation_loss; " in swept(api.prepare(api.read(study | searched)))
