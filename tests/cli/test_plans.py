"""What a study is about to do, in one line."""

from importlib.util import find_spec

import pytest

from rayfed import api
from rayfed.cli.forecasts import coded, data, expected, timed
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


PRIVATE = {
    "clients": {"count": 20, "delay": "exponential"},
    "participation": {"cohort": 5, "select": "poisson"},
    "privacy": {"noise": 4.0, "delta": 1e-3, "accountant": "rdp"},
    "uplink": [{"name": "clip", "norm": 1.0}],
    "algorithms": [{"name": "fedavg", "weights": "uniform"}],
}


@pytest.mark.skipif(find_spec("dp_accounting") is None, reason="needs dp-accounting")
def test_every_setting_of_a_grid_is_looked_at():
    whole = [api.prepare(api.read(STUDY | PRIVATE, [f"privacy.noise={x}"])) for x in (4, 2)]
    both = api.prepare(api.read(STUDY | PRIVATE | {"grid": {"privacy.noise": [4, 2]}}))
    alone = [line for plan in whole for line in coded(plan) if "epsilon" in line]
    lines = [line for line in coded(both) if "epsilon" in line]
    assert [line.replace(" (noise=4)", "").replace(" (noise=2)", "") for line in lines] == alone
    assert ["(noise=4)" in lines[0], "(noise=2)" in lines[1]] == [True, True]
    same = [line for line in coded(both) if "the server gets" in line]
    assert [line.endswith("(fedavg)") for line in same] == [True]


def test_settings_beyond_some_are_counted():
    deadlines = [1000.0, 0.1, *range(11, 50)]
    delayed = {"clients": {"count": 4, "delay": {"name": "constant", "mean_s": 1.0}}}
    grid = {"grid": {"participation.deadline_s": deadlines}}
    plan = api.prepare(api.read(STUDY | delayed | grid))
    lines, warnings = zip(*expected(plan), strict=True)
    assert lines[-1] == "21 more settings of algorithms were not looked at"
    (empty,) = [text for each in warnings for text in each]
    assert empty.startswith("3 of the first 3 rounds (fedavg (deadline_s=0.1)) stay empty")


def test_the_slowest_setting_of_an_algorithm_is_told():
    plan = api.prepare(api.read(STUDY | {"grid": {"algorithms.*.local.steps": [1, 3]}}))
    assert timed(plan).startswith("a round here takes: at most fedavg ")
    plan = api.prepare(api.read(STUDY))
    assert timed(plan).startswith("a round here takes: fedavg ")
