"""What the overview says of runs, and when they reached a target."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import rayfed
from rayfed.dashboard.catalogue import HIGHER, Bests, Catalogue, RunLine, StudyLine
from rayfed.dashboard.overview import Goal, Overview, RunRow, titled
from rayfed.report.panels.base import PageSource
from rayfed.report.read.curves import targets
from rayfed.report.read.results import Results
from rayfed.testing.studies import mixed


def run(losses, folder="a", status="finished", **info):
    times = 10.0 * np.arange(len(losses))
    bests = {"loss": Bests.of(times, np.array(losses), higher=False)} if losses else {}
    last = {"round": len(losses) - 1, "time_s": times[-1] if losses else math.nan}
    return RunLine("study", folder, status, {"label": folder, "seed": 0, **info}, last, bests)


def test_a_study_without_a_target_has_what_its_worst_run_ends_with():
    """Rounded to two digits upwards; the run that failed and the one without rows do not count."""
    runs = (
        run([3.0, 0.111]),
        run([3.0, 0.2, 0.234], "b"),
        run([3.0, 2.9], "c", status="failed"),
        run([], "d"),
    )
    study = StudyLine("study", Path("study"), runs)
    assert Goal().in_study(study) == dict.fromkeys("abcd", 0.24)
    assert Goal("loss", 0.3).in_study(study) == dict.fromkeys("abcd", 0.3)
    assert all(math.isnan(goal) for goal in Goal("accuracy").in_study(study).values())


def test_who_made_less_than_half_of_the_best_progress_sets_no_target():
    runs = (run([3.0, 0.111]), run([3.0, 2.0], "b"), run([3.0, 0.9], "c", baseline=True))
    assert Goal().in_study(StudyLine("study", Path("study"), runs))["a"] == 0.12


def test_of_accuracies_the_least_last_one_is_the_target_rounded_down():
    times = np.array([0.0, 10.0, 20.0])
    runs = (
        replace(run([], folder), bests={"accuracy": Bests.of(times, values, True)})
        for folder, values in (
            ("a", np.array([0.1, 0.95, 0.876])),
            ("b", np.array([0.2, 0.912, np.nan])),
        )
    )
    study = StudyLine("study", Path("study"), tuple(runs))
    assert Goal("accuracy").in_study(study) == {"a": 0.87, "b": 0.87}


def test_the_target_of_a_study_is_that_of_its_page(folder):
    catalogue = Catalogue([folder])
    catalogue.look()
    for study in catalogue.studies.values():
        for column in HIGHER:
            page = PageSource.of(Results.read(study.folder), column)
            assert study.targets(column) == dict.fromkeys(study.by_folder, page.target)
    assert {row.goal for row in Overview.of(catalogue, 0.0, Goal()).studies}.isdisjoint({"-"})


def test_each_case_of_a_study_has_its_target(tmp_path):
    local = {"steps": 5, "batch": 4, "lr": 0.1}
    both = [{"name": name, "local": local} for name in ("fedavg", "fedexp")]
    cases = {"cases": {"few": {"clients.count": 5}, "more": {"clients.count": 8}}}
    rayfed.run(mixed(rounds=4, algorithms=both) | cases, out=tmp_path / "study", page=False)
    catalogue = Catalogue([tmp_path / "study"])
    catalogue.look()
    (study,) = catalogue.studies.values()
    results = Results.read(study.folder)
    wanted = targets(results, "loss")
    assert len(results.cases) == 2
    assert study.targets("loss") == {
        run.folder.name: wanted[run.name] for run in results.runs_found
    }
    (row,) = Overview.of(catalogue, 0.0, Goal()).studies
    assert row.goal == (
        "2, by case" if len(set(wanted.values())) > 1 else f"{wanted.popitem()[1]:g}"
    )


def test_a_study_that_is_none_of_ours_has_no_target():
    foreign = run([3.0, 1.0], seed="first", scenario=["no", "mapping"])
    assert math.isnan(Goal().in_study(StudyLine("study", Path("study"), (foreign,)))["a"])


@pytest.mark.parametrize(
    ("query", "goal"),
    [
        ({}, Goal()),
        ({"of": "accuracy", "target": "0.9"}, Goal("accuracy", 0.9)),
        ({"of": "<b>", "target": "soon"}, Goal()),
        ({"target": "nan"}, Goal()),
    ],
)
def test_an_address_names_a_target(query, goal):
    assert Goal.of(query) == goal


def test_runs_say_when_they_reached_a_target():
    found = run([3.0, 1.0, 0.5], label="fedavg", seed=2)
    assert [RunRow(found, 0.0, "loss", target).seconds for target in (1, 0.7)] == [10, 20]
    reached, never = (RunRow(found, 0.0, "loss", target).cells[7] for target in (0.7, 0.1))
    assert (reached.text, reached.key) == ("20 s", 20)
    assert (never.text, never.key) == ("-", "")
    assert RunRow(found, 0.0, "accuracy", 0.5).cells[7].text == "-"


def test_the_title_of_a_tab_carries_the_progress_of_what_runs():
    going = [run([1.0] * (n + 1), status="running", rounds=10) for n in (2, 4)]
    assert titled("mnist", going) == "30 % · mnist"
    assert titled("mnist", [*going, run([1.0], rounds=10)]) == "30 % · mnist"
    assert titled("mnist", [run([1.0])]) == "mnist"
