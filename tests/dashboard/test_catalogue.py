"""Which studies and runs there are below folders, and how far they are."""

import json
import math
import os
import shutil

import numpy as np
import pytest

import rayfed
from rayfed.core.entries import sealed
from rayfed.dashboard.catalogue import Bests, Catalogue
from rayfed.runs.files.folder import locked


def rewritten(run, **changes):
    """Change what run.json says."""
    path = run / "run.json"
    path.write_text(json.dumps(sealed({**json.loads(path.read_text()), **changes})))


def test_studies_have_keys_and_runs_their_last_values(folder):
    catalogue = Catalogue([folder])
    assert catalogue.look() == {"results/first", "results/deep/second"}
    runs = {run.key: run for run in catalogue.runs}
    assert set(runs) == {
        "results/first/fedavg-seed3", "results/first/fedavg-seed4",
        "results/deep/second/fedavg-seed3",
    }  # fmt: skip
    run = runs["results/first/fedavg-seed4"]
    rounds = rayfed.load(folder / "first").rounds.query("seed == 4")
    assert run.last["round"] == 12
    assert run.last["time_s"] == rounds["time_s"].iloc[-1]
    assert run.bests["loss"].last == rounds["loss"].min()
    assert run.bests["accuracy"].last == rounds["accuracy"].max()
    assert (run.status, run.done, run.label) == ("finished", 1.0, "fedavg")


def test_bests_know_when_a_target_was_first_reached():
    times = np.array([0.0, 1.0, 2.0, 5.0, 9.0])
    values = np.array([4.0, math.nan, 2.0, 3.0, 1.0])
    falling = Bests.of(times, values, higher=False)
    assert falling.values.tolist() == [4, 2, 1]
    assert [falling.time_to(target) for target in (4, 2.5, 2, 1)] == [0, 2, 2, 9]
    assert math.isnan(falling.time_to(0.5))
    rising = Bests.of(times, values, higher=True)
    assert (rising.times.tolist(), rising.last, rising.time_to(3.9)) == ([0], 4, 0)
    nothing = Bests.of(times, np.full(5, math.nan), higher=True)
    assert math.isnan(nothing.last)
    assert math.isnan(nothing.time_to(0.0))


def test_a_second_look_reads_what_has_changed_alone(folder, monkeypatch):
    monkeypatch.setattr("rayfed.dashboard.catalogue.READING_S", 600.0)  # on a slow machine too
    catalogue = Catalogue([folder])
    catalogue.look()
    assert catalogue.look() == frozenset()
    monkeypatch.setattr("rayfed.dashboard.catalogue._rows", lambda *_: ({"round": 7.0}, {}))
    os.utime(folder / "first" / "fedavg-seed3" / "run.json", ns=(1, 1))
    assert catalogue.look() == {"results/first"}
    rounds = {run.key: run.last["round"] for run in catalogue.runs}
    assert rounds["results/first/fedavg-seed3"] == 7
    assert rounds["results/first/fedavg-seed4"] == 12


def test_studies_that_are_deleted_or_added_are_said(folder):
    catalogue = Catalogue([folder])
    catalogue.look()
    (folder / "first").rename(folder / "third")
    assert catalogue.look() == {"results/first", "results/third"}


def test_rows_that_there_is_no_time_for_follow_with_the_next_look(folder, monkeypatch):
    catalogue = Catalogue([folder])
    with monkeypatch.context() as patch:
        patch.setattr("rayfed.dashboard.catalogue.READING_S", -1.0)
        assert len(catalogue.look()) == 2
        assert all(run.last is None and math.isnan(run.seconds_left(0)) for run in catalogue.runs)
    assert len(catalogue.look()) == 2
    assert all(run.last for run in catalogue.runs)


@pytest.mark.parametrize(
    ("asked", "state"),
    [(None, "interrupted"), (".stop", "stopped"), ("fedavg-seed3/.stop", "stopped")],
)
def test_a_run_that_nobody_writes_is_interrupted_or_stopped(folder, monkeypatch, asked, state):
    if asked:
        (folder / "first" / asked).touch()
    rewritten(folder / "first" / "fedavg-seed3", status="running")
    catalogue = Catalogue([folder / "first"])
    catalogue.look()
    states = {run.folder: run.status for run in catalogue.runs}
    assert states == {"fedavg-seed3": state, "fedavg-seed4": "finished"}
    rewritten(folder / "first" / "fedavg-seed3", reason="none")
    catalogue.look()
    assert {run.status for run in catalogue.runs} == {"running", "finished"}  # it has just changed
    monkeypatch.setattr("rayfed.dashboard.catalogue.STILL_S", 0.0)
    assert catalogue.look() == {"first"}
    assert {run.status for run in catalogue.runs} == {state, "finished"}
    with locked(folder / "first"):
        catalogue.look()
        assert {run.status for run in catalogue.runs} == {"running", "finished"}


def test_what_is_foreign_or_broken_is_a_line(folder, tmp_path):
    (folder / "first" / "fedavg-seed3" / "run.json").write_text('{"status": ')
    (folder / "alien").mkdir()
    (folder / "alien" / "notes.txt").write_text("no study")
    shutil.rmtree(folder / "first" / "fedavg-seed4" / "rounds.parquet")
    newer = folder / "newer" / "run"
    newer.mkdir(parents=True)
    (newer / "run.json").write_text(json.dumps({"format": 999, "status": "finished"}))
    (folder / "loop").symlink_to(folder)
    catalogue = Catalogue([folder])
    catalogue.look()
    runs = {run.key: run for run in catalogue.runs}
    assert runs["results/first/fedavg-seed3"].status == "failed"
    assert "run.json" in runs["results/first/fedavg-seed3"].reason
    assert runs["results/first/fedavg-seed4"].last == {"round": 0.0}
    assert runs["results/newer/run"].status == "unreadable"
    assert "newer" in runs["results/newer/run"].reason
    assert not any("loop" in key or "alien" in key for key in catalogue.studies)


def test_folders_of_one_name_have_different_keys(folder, tmp_path):
    other = shutil.copytree(folder, tmp_path / "other" / "results")
    catalogue = Catalogue([folder, other])
    catalogue.look()
    assert "results/first" in catalogue.studies
    assert catalogue.studies["results-2/first"].folder == other / "first"


def test_an_empty_folder_has_no_studies(tmp_path):
    catalogue = Catalogue([tmp_path / "nothing"])
    assert catalogue.look() == frozenset()
    assert list(catalogue.runs) == []
