"""What the settings of a grid are called: by what differs."""

import pytest
import yaml

from rayfed.report.read.results import Results
from rayfed.report.read.settings import Placed, key_by_place, placed, planned, short_names, tried

SMALL = {"name": "small-world", "neighbours": 4, "rewire": 0.2}
PLUGIN = {"name": "x", "loss": 0.0}
TWO = "algorithms:\n- {name: fedavg}\n- {name: fedexp}\n"


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


def test_keys_have_the_places_of_algorithms():
    scenario = yaml.safe_dump({
        "algorithms": ["fedavg", {"name": "fedexp", "label": "mine"}],
        "grid": {"algorithms.mine.epsilon": [1], "algorithms.fedavg.local.lr": [2], "rounds": [3]},
    })  # fmt: skip
    (values,) = tried(scenario).values()
    found = [key_by_place(scenario, key) for key in values]
    assert sorted(found) == ["algorithms.0.local.lr", "algorithms.1.epsilon", "rounds"]


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


def parts(text):
    return {name: (one.case, one.own) for name, one in placed(text, []).items()}


def test_a_grid_over_the_world_makes_cases():
    text = f"grid: {{partition.alpha: [0.1, 10.0], participation.cohort: [5]}}\n{TWO}"
    assert parts(text) == {
        "alpha=0.1, cohort=5": ("alpha = 0.1, cohort = 5", ""),
        "alpha=10.0, cohort=5": ("alpha = 10, cohort = 5", ""),
    }


def test_keys_of_algorithms_are_settings_of_a_search():
    text = f"grid: {{algorithms.*.local.lr: [0.1, 1]}}\n{TWO}"
    assert parts(text) == {"lr=0.1": ("", "lr=0.1"), "lr=1": ("", "lr=1")}
    text = f"cases: {{small: {{algorithms.*.lr: 0.1}}, large: {{algorithms.*.lr: 1}}}}\n{TWO}"
    assert parts(text) == {"small": ("", "small"), "large": ("", "large")}


def test_a_grid_over_both_is_split():
    text = f"grid: {{clients.count: [10, 20], algorithms.0.local.lr: [1]}}\n{TWO}"
    assert parts(text) == {
        "count=10, lr=1": ("10 clients", "lr=1"),
        "count=20, lr=1": ("20 clients", "lr=1"),
    }


def test_named_cases_keep_their_names_also_one_that_sets_nothing():
    text = f"cases: {{plain: {{}}, skewed: {{partition.alpha: 0.1}}}}\n{TWO}"
    assert placed(text, []) == {"plain": Placed("plain", ""), "skewed": Placed("skewed", "")}


def test_a_case_may_have_a_grid_of_its_own():
    text = (
        "cases:\n  few: {clients.count: 10, grid: {partition.alpha: [1, 2]}}\n"
        f"  many: {{clients.count: 99, grid: {{algorithms.*.local.lr: [1, 2]}}}}\n{TWO}"
    )
    assert parts(text) == {
        "few, alpha=1": ("few, alpha = 1", ""), "few, alpha=2": ("few, alpha = 2", ""),
        "many, lr=1": ("many", "lr=1"), "many, lr=2": ("many", "lr=2"),
    }  # fmt: skip


def test_runs_of_a_case_go_by_their_label_and_keep_their_colour_s_order(tmp_path, case_writer):
    ends = {"0.1": {"a": [1.0], "b": [2.0]}, "10.0": {"b": [2.0], "c": [3.0]}}
    results = Results.read(case_writer(tmp_path, ends))
    assert results.case_of["b (alpha=10.0)"] == "alpha = 10"
    assert {case: part.names for case, part in results.cases.items()} == {
        "alpha = 0.1": ("a", "b"),
        "alpha = 10": ("b", "c"),
    }
    assert {part.order for part in results.cases.values()} == {("a", "b", "c")}
    assert results.families == {name: name[0] for name in results.names}
    assert not results.cases["alpha = 10"].cases


def test_where_each_case_has_one_algorithm_the_cases_are_compared(tmp_path, case_writer):
    results = Results.read(case_writer(tmp_path, {"1.0": {"a": [1.0]}, "2.0": {"a": [2.0]}}))
    assert (results.cases, results.case_of, results.families) == ({}, {}, {})


def test_trials_of_a_sweep_are_no_cases(tmp_path, run_writer, case_writer, rows):
    case_writer(tmp_path, {"1.0": {"a": [1.0], "b": [1.0]}, "2.0": {"a": [1.0], "b": [1.0]}})
    run_writer(tmp_path, "a", 7, rows([2, 1]), trial={"number": 1, "values": {}}, setting="trial 1")
    assert not Results.read(tmp_path).cases


def test_settings_of_an_algorithm_are_told_apart_in_a_case(tmp_path, run_writer, rows):
    text = f"grid: {{clients.count: [10, 20], algorithms.0.local.lr: [1, 2]}}\n{TWO}"
    (tmp_path / "scenario.yaml").write_text(text)
    for count in (10, 20):
        for lr in (1, 2):
            for label in ("fedavg", "fedexp"):
                run_writer(tmp_path, label, 0, rows([2, 1]), folder=f"{label}-{count}-{lr}",
                           setting=f"count={count}, lr={lr}", scenario={})  # fmt: skip
    found = Results.read(tmp_path).cases["20 clients"].names
    assert found == ("fedavg (lr=1)", "fedavg (lr=2)", "fedexp (lr=1)", "fedexp (lr=2)")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (f"seeds: [0, 1, 2]\n{TWO}", 6),
        (f"seeds: [0]\ngrid: {{rounds: [1, 2], seed: [1, 2, 3]}}\n{TWO}", 12),
        ("seeds: [0, 1]\nalgorithms: [{name: a, grid: {lr: [1, 2, 3]}}, {name: b}]\n", 8),
        (f"seeds: [0]\ncases: {{x: {{seeds: [1, 2]}}, y: {{rounds: 3}}}}\n{TWO}", 6),
        (f"seeds: [0]\nsearch: {{rounds: {{int: [1, 2]}}}}\n{TWO}", 0),
        ("", 0),
    ],
)
def test_the_number_of_runs_that_a_scenario_plans(text, count):
    assert planned(text) == count
