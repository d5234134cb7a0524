"""What the settings of a grid are called: by what differs."""

import pytest
import yaml

from rayfed.report.read.results import Results
from rayfed.report.read.settings import short_names, tried

SMALL = {"name": "small-world", "neighbours": 4, "rewire": 0.2}
PLUGIN = {"name": "x", "loss": 0.0}


def text(grid):
    return yaml.safe_dump({"grid": grid}, sort_keys=False)


def called(grid, **scenario):
    return list(short_names(tried(text(grid)), [scenario]).values())


def test_plug_ins_go_by_their_names_and_clients_are_counted():
    grid = {"topology": ["ring", SMALL], "clients.count": [10, 2000]}
    assert called(grid, topology=PLUGIN) == [
        "ring, 10 clients", "ring, 2,000 clients",
        "small-world, 10 clients", "small-world, 2,000 clients",
    ]  # fmt: skip


def test_of_two_of_a_name_what_differs_is_told():
    local = {"name": "sgd", "steps": 5}
    grid = {"topology": [SMALL, SMALL | {"rewire": 0.5}, "ring", None]}
    told = ["small-world rewire=0.2", "small-world rewire=0.5", "ring", "no topology"]
    assert called(grid, topology=PLUGIN) == told
    grid = {"participation.select": [{"name": "a", "local": local | {"steps": n}} for n in (1, 2)]}
    assert called(grid, participation={"select": PLUGIN}) == ["a steps=1", "a steps=2"]


@pytest.mark.parametrize(
    ("grid", "scenario", "names"),
    [
        ({"problem.weighting": ["uniform", "rows"]}, {"problem": PLUGIN | {"weighting": "rows"}},
         ["weighting=uniform", "weighting=rows"]),
        ({"algorithms.*.lr": [0.1, 1]}, {"algorithms": [PLUGIN | {"lr": 1}]}, ["lr=0.1", "lr=1"]),
        ({"algorithms.1.local": ["sgd", "adam"]}, {"algorithms": [PLUGIN, {"local": PLUGIN}]},
         ["sgd", "adam"]),
        ({"algorithms.mine.lr": [0.1, 1]}, {"algorithms": ["fedavg", PLUGIN | {"label": "mine"}]},
         ["lr=0.1", "lr=1"]),
        ({"algorithms.mine.local": ["sgd", "adam"]},
         {"algorithms": ["fedavg", {"label": "mine", "local": PLUGIN}]}, ["sgd", "adam"]),
        ({"a.lr": [1], "b.lr": [2]}, {}, ["a.lr=1, b.lr=2"]),
        ({"here": ["x"], "there": ["x"]}, {"here": PLUGIN, "there": PLUGIN}, ["here=x, there=x"]),
        ({}, {}, []),
    ],
    ids=["an option", "a number", "of an algorithm", "by a label",
         "a plug-in by a label", "keys alike", "names alike", "no grid"],
)  # fmt: skip
def test_everything_else_keeps_its_key(grid, scenario, names):
    assert called(grid, **scenario) == names


@pytest.mark.parametrize("scenario", ["", "- a list", "grid: [", "grid: {}"])
def test_a_scenario_without_a_grid_has_no_settings(scenario):
    assert tried(scenario) == {}


def test_runs_are_named_by_the_short_setting(tmp_path, run_writer, rows):
    grid = {"topology": ["ring", SMALL], "clients.count": [10]}
    (tmp_path / "scenario.yaml").write_text(text(grid), encoding="utf-8")
    settings = {name: {"topology": PLUGIN} for name in tried(text(grid))}
    for label in ("A", "B"):
        for number, (setting, scenario) in enumerate(settings.items()):
            run_writer(
                tmp_path, label, 0, rows([1.0, 0.5], label), folder=f"{label}{number}",
                setting=setting, scenario=scenario,
            )  # fmt: skip
    names = ("A (ring, 10 clients)", "A (small-world, 10 clients)")
    assert set(Results.read(tmp_path).names) == {*names, *(f"B{name[1:]}" for name in names)}
