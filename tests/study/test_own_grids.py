"""Grids of single algorithms: they add up, and multiply with the grid of the study."""

import pytest

import rayfed
from rayfed.core.errors import ScenarioError
from rayfed.report.best import Aim, Best
from rayfed.report.read.results import Results
from rayfed.study import Study, expand


def study(**changes):
    return {
        "rounds": 6,
        "problem": {
            "name": "least-squares", "dataset": {"name": "linear", "features": 2, "samples": 5}
        },
        "clients": {"count": 3},
        "algorithms": [
            {
                "name": "fedavg", "local": {"batch": "full"},
                "grid": {"local.lr": [0.01, 0.1, 0.3], "local.steps": [1, 2]},
            },
            {
                "name": "fedexp", "local": {"batch": "full", "lr": 0.1},
                "grid": {"epsilon": [0, 0.1, 1, 2]},
            },
        ],
        "executor": {"name": "serial"},
    } | changes  # fmt: skip


def runs(made):
    return [(label, name) for name, each in expand(made) for label in each.labels]


def test_six_settings_of_one_and_four_of_another_are_ten_runs():
    made = dict(expand(study()))
    assert len(runs(study())) == 10
    assert made["lr=0.3, steps=2"].labels == ("fedavg",)
    local = made["lr=0.3, steps=2"].algorithms[0].local
    assert (local.lr, local.steps) == (0.3, 2)
    assert made["epsilon=1"].algorithms[0].epsilon == 1
    assert not made["epsilon=1"].algorithms[0].grid


def test_the_grid_of_the_study_multiplies_them():
    both = study(grid={"participation.cohort": [1, 2, 3]})
    assert len(runs(both)) == 3 * 10
    one = dict(expand(both))["cohort=2, epsilon=2"]
    assert one.participation.cohort == 2
    assert one.labels == ("fedexp",)


@pytest.mark.parametrize("which", ["*", "0", "fedavg"])
def test_of_one_key_the_values_of_the_algorithms_own_grid_win(which):
    made = study(grid={f"algorithms.{which}.local.lr": [0.5, 0.7]})
    found = {"fedavg": set(), "fedexp": set()}
    for _, each in expand(made):
        for label, algorithm in zip(each.labels, each.algorithms, strict=True):
            found[label].add(algorithm.local.lr)
    assert found == {"fedavg": {0.01, 0.1, 0.3}, "fedexp": {0.5, 0.7} if which == "*" else {0.1}}


def test_an_algorithm_without_a_grid_runs_once():
    made = study()
    made["algorithms"].append({"name": "scaffold", "label": "alone"})
    assert [run for run in runs(made) if run[0] == "alone"] == [("alone", "")]
    made["grid"] = {"algorithms.alone.local.lr": [0.1, 0.2]}
    assert len([run for run in runs(made) if run[0] == "alone"]) == 2


def test_settings_of_one_name_are_one_setting():
    made = study()
    for entry in made["algorithms"]:
        entry["grid"] = {"local.lr": [0.1, 0.2]}
    assert runs(made) == [
        (label, f"lr={lr}") for lr in (0.1, 0.2) for label in ("fedavg", "fedexp")
    ]
    made["algorithms"][1]["grid"] = {"local.lr": [0.2, 0.3]}
    assert dict(expand(made))["lr=0.2"].labels == ("fedavg", "fedexp")


@pytest.mark.parametrize(
    ("grid", "place"),
    [
        ({"local.lr": [0.1, -1]}, "algorithms.1.grid.local.lr"),
        ({"local.speed": [1, 2]}, "algorithms.1.grid.local.speed"),
        ({"epsilon": [1, 1]}, "algorithms.1.grid"),
        ({"epsilon": []}, "algorithms.1.grid.epsilon"),
    ],
)
def test_a_mistake_is_told_by_its_place_in_the_file(grid, place):
    made = study()
    made["algorithms"][1]["grid"] = grid
    with pytest.raises(ScenarioError) as error:
        expand(made)
    assert error.value.place == place


def test_too_many_runs_are_refused_before_they_are_made():
    made = study()
    made["algorithms"][0]["grid"] = {"local.lr": [0.1] * 1000, "local.steps": [1] * 1000}
    with pytest.raises(ScenarioError, match="runs; split the study"):
        Study.parse(made)


def test_the_schema_knows_it(validator):
    assert validator.is_valid(study())
    wrong = study()
    wrong["algorithms"][0]["grid"] = {"local.lr": 0.1}
    assert not validator.is_valid(wrong)


def test_best_compares_the_settings_of_each_algorithm(tmp_path):
    made = study()
    made["algorithms"].append({"name": "scaffold", "local": {"batch": "full"}})
    result = rayfed.run(made, out=tmp_path / "out", page=False)
    assert len(result.rounds.groupby(["label", "setting"])) == 11
    best = Best(Results.read(tmp_path / "out"), Aim("loss"))
    tried = {winner.best.algorithm: winner.tried for winner in best.winners}
    assert tried == {"fedavg": 6, "fedexp": 4, "scaffold": 1}
    last = result.rounds[result.rounds["round"] == 6].set_index(["label", "setting"])["loss"]
    for winner in best.winners:
        assert winner.best.value == last[winner.best.algorithm].min()
    (fedavg,) = (w for w in best.winners if w.best.algorithm == "fedavg")
    assert fedavg.best.setting == last["fedavg"].idxmin()
    assert fedavg.edges == ("algorithms.0.local.lr",)  # two values of steps have no edge
    (path,) = best.write()
    rerun = rayfed.run(path, out=tmp_path / "again", overrides=["seeds=[0]"], page=False).rounds
    again = rerun[rerun["round"] == 6].set_index("label")["loss"]
    assert again["fedavg"] == fedavg.best.value
