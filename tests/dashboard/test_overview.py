"""What the overview says of runs, and when they reached a target."""

import math
from pathlib import Path

import numpy as np
import pytest

from rayfed.dashboard.catalogue import Bests, RunLine, StudyLine
from rayfed.dashboard.overview import Goal, RunRow, titled


def run(losses, folder="a", status="finished", **info):
    times = 10.0 * np.arange(len(losses))
    bests = {"loss": Bests.of(times, np.array(losses), higher=False)} if losses else {}
    last = {"round": len(losses) - 1, "time_s": times[-1] if losses else math.nan}
    return RunLine("study", folder, status, info, last, bests)


def test_a_study_without_a_target_has_what_each_of_its_runs_has_come_to():
    runs = (run([3.0, 0.111]), run([3.0, 0.5, 0.234]), run([3.0, 2.9], status="failed"), run([]))
    study = StudyLine("study", Path("study"), runs)
    assert Goal().in_study(study) == 0.24
    assert Goal("loss", 0.3).in_study(study) == 0.3
    assert math.isnan(Goal("accuracy").in_study(study))


def test_of_accuracies_the_least_best_one_is_the_target_rounded_down():
    times = np.array([0.0, 10.0])
    runs = (
        RunLine("study", folder, "finished", {}, None, {"accuracy": Bests.of(times, values, True)})
        for folder, values in (("a", np.array([0.1, 0.876])), ("b", np.array([0.2, 0.912])))
    )
    assert Goal("accuracy").in_study(StudyLine("study", Path("study"), tuple(runs))) == 0.87


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
