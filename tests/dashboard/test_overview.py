"""What the overview says of runs, and when they reached a target."""

import math
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

import rayfed
from rayfed.core.notes import Notes
from rayfed.dashboard.catalogue import HIGHER, Bests, Catalogue, RunLine, StudyLine
from rayfed.dashboard.overview import (
    EXTRA,
    MOST_CHARACTERS,
    MOST_COLUMNS,
    Cell,
    Goal,
    Group,
    Layout,
    Overview,
    RunRow,
    StudyRow,
    date,
    titled,
)
from rayfed.report.panels.base import PageSource
from rayfed.report.read import units
from rayfed.report.read.curves import targets
from rayfed.report.read.results import Results
from rayfed.testing.studies import mixed


def run(losses, folder="a", status="finished", **info):
    times = 10.0 * np.arange(len(losses))
    bests = {"loss": Bests.of(times, np.array(losses), higher=False)} if losses else {}
    last = {"round": len(losses) - 1, "time_s": times[-1] if losses else math.nan}
    return RunLine(
        "study", folder, status, {"label": folder, "seed": 0, **info}, last=last, bests=bests
    )


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


def test_runs_of_a_stopped_study_that_never_began_set_no_target():
    runs = (
        run([3.0, 0.111], "a0", label="a"),
        run([3.0, 0.234], "b0", label="b"),
        *(run([3.0], f"{name}{k}", label=name, seed=k) for name in "ab" for k in (1, 2)),
    )
    found = Goal().in_study(StudyLine("study", Path("study"), runs))
    assert set(found.values()) == {0.24}


def test_who_made_less_than_half_of_the_best_progress_sets_no_target():
    runs = (run([3.0, 0.111]), run([3.0, 2.0], "b"), run([3.0, 0.9], "c", baseline=True))
    assert Goal().in_study(StudyLine("study", Path("study"), runs))["a"] == 0.12


def test_of_accuracies_the_least_last_one_is_the_target_rounded_down():
    times = np.array([0.0, 10.0, 20.0])
    runs = (
        replace(run([3.0, 2.0, 1.0], folder), bests={"accuracy": Bests.of(times, values, True)})
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
        "2 values, by case" if len(set(wanted.values())) > 1 else f"{wanted.popitem()[1]:g}"
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
    reached, never = (
        RunRow(found, 0.0, "loss", target).cell("time to target") for target in (0.7, 0.1)
    )
    assert (reached.text, reached.key) == ("20 s", 20)
    assert (never.text, never.key) == ("-", "")
    assert RunRow(found, 0.0, "accuracy", 0.5).cell("time to target").text == "-"


STARTED = "2026-03-04T05:06:07Z"
BEGAN = datetime.fromisoformat(STARTED).timestamp()


def test_a_study_begins_with_its_first_run_and_ends_with_its_last():
    later = "2026-03-04T05:07:07Z"
    runs = (run([1.0], started=later, wall_s=30.0), run([1.0], "b", started=STARTED, wall_s=9.0))
    row = StudyRow(StudyLine("study", Path("study"), runs), {}, BEGAN + 600)
    assert row.started == f"{datetime.fromtimestamp(BEGAN):%Y-%m-%d %H:%M}"
    assert row.duration == "1 min 30 s"
    going = (*runs, run([1.0], "c", status="running", started=later))
    assert StudyRow(StudyLine("study", Path("study"), going), {}, BEGAN + 600).duration == "10 min"
    odd = tuple(run([1.0], started=text) for text in ("soon", "0001-01-01", None))
    row = StudyRow(StudyLine("study", Path("study"), odd[:1]), {}, 0.0)
    assert (row.started, row.duration) == ("-", "-")
    assert all(date(each.started).text for each in odd)


def test_cells_are_of_settings_too():
    scenario = {"participation": {"cohort": 4, "select": "x" * 100}, "rounds": True}
    found = run([3.0], scenario=scenario, settings={"local": {"lr": 0.1, "mu": None}}, wall_s=2.0)
    row = RunRow(found, 0.0, "loss", 0.5, ("a", "b"))
    assert row.cell("participation.cohort") == Cell("4", 4.0)
    assert row.cell("local.lr") == Cell("0.1", 0.1)
    assert row.cell("local.mu") == Cell("none", "none")
    assert row.cell("rounds") == Cell("True", "True")
    assert row.cell("local.momentum") == Cell("-")
    assert len(row.cell("participation.select").text) == MOST_CHARACTERS
    assert row.cell("duration") == Cell("2 s", 2.0)
    assert row.cell("tags").text == "a b"


def test_last_values_of_recorded_columns_are_cells(folder):
    catalogue = Catalogue([folder])
    catalogue.look()
    found = Overview.of(catalogue, 0.0, Goal(), Layout(("last loss", "last nothing")))
    assert found.heads[-1] == "last loss"
    assert {"last loss", "last test_loss", "last bytes_up"} <= set(found.choices)
    rounds = rayfed.load(folder / "first").rounds
    for row in (row for row in found.runs if row.run.study.endswith("first")):
        losses = rounds.query(f"seed == {row.run.info['seed']}")["loss"].dropna()
        assert row.cell("last loss").key == losses.iloc[-1]
    assert row.cell("last nothing") == Cell("-")
    (part,) = (folder / "first" / "fedavg-seed3" / "rounds.parquet").iterdir()
    part.unlink()
    catalogue = Catalogue([folder])
    catalogue.look()
    damaged = catalogue.studies["results/first"].by_folder["fedavg-seed3"]
    assert damaged.recorded == []
    assert math.isnan(damaged.end("loss"))


def test_a_layout_has_known_columns_only():
    query = "column=local.lr&column=seed&column=nothing&group=tags&x=%3Cb%3E&y=local.lr&archived=1"
    found = Layout.of(query)
    assert found.columns == ("local.lr", "seed", "nothing")
    known = found.within({"local.lr", "seed", "tags"})
    assert known == Layout(("local.lr",), "tags", "", "local.lr", True)
    assert Layout.of("") == Layout()
    assert len(Layout.of("&".join(f"column={k}" for k in range(99))).columns) == MOST_COLUMNS


def test_runs_are_grouped_by_any_column(folder):
    catalogue = Catalogue([folder])
    catalogue.look()
    whole = Overview.of(catalogue, 0.0, Goal())
    assert [group.title for group in whole.groups] == [""]
    assert whole.more[:4] == (*EXTRA, "rounds")
    by_rounds = Overview.of(catalogue, 0.0, Goal(), Layout(group="rounds")).groups
    assert [(group.title, group.counts) for group in by_rounds] == [
        ("4", "1 finished"), ("12", "2 finished")
    ]  # fmt: skip
    losses = [row.best("loss") for row in by_rounds[1].rows]
    assert by_rounds[1].cell("best loss") == f"mean {units.number(sum(losses) / 2)}"
    assert by_rounds[1].cell("algorithm") == "fedavg"
    assert by_rounds[1].cell("seed") == ""
    by_status = Overview.of(catalogue, 0.0, Goal(), Layout(group="status")).groups
    assert [group.title for group in by_status] == ["finished"]


def test_a_group_with_a_missing_value_has_no_mean():
    rows = [RunRow(run(losses), 0.0, "loss", 0.5) for losses in ([3.0, 1.0], [])]
    assert Group("", tuple(rows)).cell("best loss") == ""


def test_archived_studies_are_listed_on_request(folder):
    Notes(tags=("old",), archived=True).write(folder / "first")
    catalogue = Catalogue([folder])
    catalogue.look()
    found = Overview.of(catalogue, 0.0, Goal())
    assert (len(found.studies), len(found.runs), found.archived) == (1, 1, 1)
    found = Overview.of(catalogue, 0.0, Goal(), Layout(archived=True))
    assert sorted(row.tags for row in found.runs) == [(), ("old",), ("old",)]
    assert Overview.of(catalogue, 0.0, Goal()).sentence == "1 run in 1 study: 1 finished"
    Notes(archived=True).write(folder / "deep" / "second")
    catalogue.look()
    assert Overview.of(catalogue, 0.0, Goal()).sentence == "All studies are archived"


def test_the_title_of_a_tab_carries_the_progress_of_what_runs():
    going = [run([1.0] * (n + 1), status="running", rounds=10) for n in (2, 4)]
    assert titled("mnist", going) == "30 % · mnist"
    assert titled("mnist", [*going, run([1.0], rounds=10)]) == "30 % · mnist"
    assert titled("mnist", [run([1.0])]) == "mnist"
