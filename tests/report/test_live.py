"""Rows that go to experiment trackers while a study runs."""

import json
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import rayfed
from rayfed.core.errors import RayfedError, ScenarioError
from rayfed.report import live
from rayfed.report.live import LiveLog, logged, trackers_of, write_note
from rayfed.report.trackers import TRACKERS, Entry, Tracker, WandB
from rayfed.report.writing import LOGGING

LOSS = [8.0, 4.0, 2.0]
SCENARIO = {
    "name": "followed", "seeds": [0], "rounds": 6, "evaluate": {"every": 4},
    "problem": {
        "name": "least-squares", "dataset": {"name": "linear", "features": 2, "samples": 5}
    },
    "clients": {"count": 4},
    "algorithms": [{"name": "fedavg", "local": {"steps": 2, "lr": 0.1}}],
    "executor": {"name": "serial"},
}  # fmt: skip


class Collected(Tracker):
    """A tracker in memory, which fails on demand."""

    def __init__(self, study, folder, local=False):
        self.study, self.rows, self.begun, self.ended = study, [], [], []
        self.failures = 0

    def begin(self, run, began):
        self.begun.append(run.folder.name)
        return Entry(run, began, f"id-{run.folder.name}")

    def add(self, entry, points):
        if self.failures:
            self.failures -= 1
            raise ConnectionError("it is away")
        if len(points):
            self.rows += [(entry.id, *row) for row in points[["name", "round", "value"]].to_numpy()]

    def end(self, entry):
        self.ended.append((entry.id, entry.run.status))

    def losses(self):
        return [(number, value) for _, name, number, value in self.rows if name == "loss"]


@pytest.fixture
def tracker(monkeypatch):
    """One tracker for all logs of a test, as a service is."""
    one = Collected("", None)
    monkeypatch.setitem(TRACKERS, "mlflow", lambda study, folder: one)
    monkeypatch.setattr(live, "check_installed", lambda name: None)
    return one


@pytest.fixture
def out(tmp_path):
    write_note(tmp_path, {"mlflow": {}})
    return tmp_path


def follow(out, lines=None):
    """Follow a study that has ended its process: look once."""
    with logged(out, ([] if lines is None else lines).append):
        pass


def again(out, run_writer, frame, **info):
    """Replace the run by one that has gone on."""
    for path in sorted((out / "a-seed3").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (out / "a-seed3").rmdir()
    run_writer(out, "a", 3, frame, **info)


def test_each_row_is_sent_once_over_several_processes(out, tracker, run_writer, rows):
    running = {"status": "running", "ended": None}
    run_writer(out, "a", 3, rows(LOSS[:1], "a"), **running)
    follow(out)
    again(out, run_writer, rows(LOSS[:2], "a"), **running)
    follow(out)
    follow(out)
    assert tracker.ended == []
    again(out, run_writer, rows(LOSS, "a"))
    follow(out)
    follow(out)
    assert tracker.losses() == list(enumerate(LOSS))
    assert tracker.begun == ["a-seed3"]
    assert tracker.ended == [("id-a-seed3", "finished")]
    again(out, run_writer, rows([*LOSS, 1.0], "a"), ended="2026-11-20T15:00:19+00:00")
    follow(out)  # it was extended
    assert tracker.losses() == list(enumerate([*LOSS, 1.0]))


def test_a_last_row_that_is_evaluated_at_the_end_is_completed(out, tracker, run_writer, rows):
    run_writer(out, "a", 3, rows([8.0, np.nan], "a"), status="running", ended=None)
    follow(out)
    again(out, run_writer, rows([8.0, 4.0], "a"))
    follow(out)
    assert tracker.losses() == [(0, 8.0), (1, 4.0)]
    assert sum(name == "time_s" for _, name, *_ in tracker.rows) == 2


def test_rows_that_go_back_to_a_checkpoint_are_not_sent_again(out, tracker, run_writer, rows):
    run_writer(out, "a", 3, rows(LOSS, "a"), status="running", ended=None)
    follow(out)
    again(out, run_writer, rows(LOSS[:2], "a"), status="running", ended=None)
    follow(out)
    assert tracker.losses() == list(enumerate(LOSS))


def test_a_tracker_that_is_away_is_one_warning_and_gets_all_later(
    out, tracker, run_writer, rows, monkeypatch
):
    monkeypatch.setattr(live, "_EVERY_S", 0.01)
    run_writer(out, "a", 3, rows(LOSS, "a"))
    lines = []
    tracker.failures = 3
    log = LiveLog(out, "mlflow", {"mlflow": {}}, lines.append)
    while tracker.failures:
        time.sleep(0.01)
    log.close(time.monotonic() + 10)
    assert lines == [
        "warning: mlflow fails (it is away); the study goes on; rows that are missing there are "
        f"sent later, or by rayfed resume {out}"
    ]
    assert tracker.losses() == list(enumerate(LOSS))


def test_a_tracker_that_does_not_return_does_not_hold_the_study(out, tracker, run_writer, rows):
    run_writer(out, "a", 3, rows(LOSS, "a"))
    hang = threading.Event()
    tracker.add = lambda entry, points: hang.wait()
    lines = []
    LiveLog(out, "mlflow", {"mlflow": {}}, lines.append).close(time.monotonic() + 0.05)
    hang.set()
    assert "it takes too long" in lines[0]


@pytest.mark.parametrize("text", ["[", "3", '{"mlflow": 1, "csv": {}}', '{"seal": 3}'])
def test_a_damaged_note_follows_nothing(out, tracker, run_writer, rows, text):
    (out / LOGGING).write_text(text, encoding="utf-8")
    run_writer(out, "a", 3, rows(LOSS, "a"))
    follow(out)
    assert tracker.begun == []


def test_a_study_is_followed_and_again_after_it_was_extended(tmp_path, tracker):
    place = tmp_path / "out"
    result = rayfed.run(SCENARIO, out=place, log=["mlflow"], page=False)
    recorded = pd.DataFrame(result.rounds)
    assert tracker.losses() == recorded[["round", "loss"]].dropna().to_records(index=False).tolist()
    rayfed.extend(place, rounds=8)
    rayfed.resume(place, page=False)
    numbers = [number for _, name, number, _ in tracker.rows if name == "time_s"]
    assert numbers == list(range(9))
    assert [number for number, _ in tracker.losses()] == [0, 4, 6, 8]
    assert json.loads((place / LOGGING).read_text())["mlflow"]["fedavg-seed0"]["round"] == 8


@pytest.mark.parametrize(
    ("log", "error", "text"),
    [
        ("mlfow", ScenarioError, "--log: unknown tracker 'mlfow'; did you mean 'mlflow'?"),
        ("wandb", RayfedError, "wandb: needs wandb; install with: pip install 'wandb>="),
    ],
)
def test_a_tracker_that_is_not_there_is_refused_at_the_start(
    tmp_path, monkeypatch, log, error, text
):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(error) as refused:
        rayfed.run(SCENARIO, out=tmp_path / "out", log=[log])
    assert str(refused.value).startswith(text)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("away", ["../../away", "{outside}"])
def test_a_note_of_a_stranger_names_no_folder(tmp_path, run_writer, rows, away):
    pytest.importorskip("tensorboardX", reason="needs tensorboardX")
    out, outside = tmp_path / "results" / "out", tmp_path / "results" / "away"
    out.mkdir(parents=True)
    run_writer(out, "a", 3, rows(LOSS, "a"))
    sent = {"id": away.format(outside=outside), "began": 0.0, "round": 0, "columns": []}
    write_note(out, {"tensorboard": {"a-seed3": sent}})
    follow(out)
    assert not outside.exists()
    assert any((out / "tensorboard" / "a-seed3").iterdir())


# -- a folder of somebody else ------------------------------------------------------------------


@pytest.fixture
def theirs(tmp_path, tracker, monkeypatch):
    """Return a study with two runs to do, made by another user who logged it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "their state"))
    place = tmp_path / "theirs"
    rayfed.run(SCENARIO, out=place, log=["mlflow"], page=False)
    rayfed.extend(place, seeds=[1, 2])
    tracker.rows.clear()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "my state"))
    return place


def refusal(place):
    text = "and you did not make it here; to send rows there, resume with --log mlflow, else"
    return f"{place / LOGGING}: names mlflow, {text} remove it"


@pytest.mark.guard
def test_trackers_of_somebody_else_are_refused_before_anything_runs(theirs, tracker):
    scenario, note = theirs / "scenario.yaml", (theirs / LOGGING).read_bytes()
    before = scenario.read_bytes()
    for go in (
        lambda: rayfed.resume(theirs, page=False),
        lambda: rayfed.resume(theirs, page=False, trust=True, log=["tensorboard"]),
        lambda: rayfed.extend(theirs, seeds=[3]),
    ):
        with pytest.raises(ScenarioError) as refused:
            go()
        assert str(refused.value) == refusal(theirs)
    assert (scenario.read_bytes(), (theirs / LOGGING).read_bytes()) == (before, note)
    assert not tracker.rows
    assert not (theirs / "fedavg-seed1").exists()


@pytest.mark.guard
def test_trackers_that_are_given_again_get_runs_of_their_own(theirs, tracker):
    held = json.loads((theirs / LOGGING).read_text())
    held["mlflow"]["fedavg-seed1"] = {"id": "mine", "began": 0, "round": 0, "columns": []}
    (theirs / LOGGING).write_text(json.dumps(held))
    tracker.begun.clear()
    rayfed.resume(theirs, page=False, log=["mlflow"])
    assert sorted(tracker.begun) == [f"fedavg-seed{seed}" for seed in range(3)]
    assert {key for key, *_ in tracker.rows} == {f"id-{name}" for name in tracker.begun}
    tracker.rows.clear()
    rayfed.extend(theirs, seeds=[3])  # the folder now has this user's seal
    rayfed.resume(theirs, page=False)
    assert {key for key, *_ in tracker.rows} == {"id-fedavg-seed3"}


@pytest.mark.guard
@pytest.mark.parametrize("change", [{"id": "another"}, {"round": 9}])
def test_a_note_that_was_changed_elsewhere_is_somebody_elses(theirs, tmp_path, monkeypatch, change):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "their state"))
    assert trackers_of(theirs).keys() == {"mlflow"}
    held = json.loads((theirs / LOGGING).read_text())
    held["mlflow"]["fedavg-seed0"] |= change
    (theirs / LOGGING).write_text(json.dumps(held))
    with pytest.raises(ScenarioError, match="you did not make it here"):
        trackers_of(theirs)


def test_a_tracker_may_be_added_to_a_study_that_has_one_or_none(tmp_path, tracker, monkeypatch):
    place = tmp_path / "out"
    rayfed.run(SCENARIO, out=place, page=False)
    rayfed.extend(place, seeds=[1])
    rayfed.resume(place, log=["mlflow"], page=False)
    assert sorted(tracker.begun) == ["fedavg-seed0", "fedavg-seed1"]
    other = Collected("", None)
    monkeypatch.setitem(TRACKERS, "wandb", lambda study, folder: other)
    rayfed.extend(place, seeds=[2])
    rayfed.resume(place, log=["wandb"], page=False)
    assert "fedavg-seed2" in tracker.begun
    assert "fedavg-seed2" in other.begun


def test_settings_of_wandb_in_a_result_folder_name_no_server(tmp_path):
    tracker = WandB("study", tmp_path / "out" / "wandb")
    for place in (tmp_path / "out" / "wandb", tmp_path / "mine"):
        place.mkdir(exist_ok=True)
        (place / "settings").write_text("[default]\nbase_url = https://stranger.example\n")
    found = SimpleNamespace(settings_workspace=str(tmp_path / "mine" / "settings"), mode="online")
    assert tracker._mode_of(found) == "online"
    found.settings_workspace = str(tmp_path / "mine" / ".." / "out" / "wandb" / "settings")
    with pytest.raises(RayfedError, match="out/wandb/settings: names a server in a result folder"):
        tracker._mode_of(found)
    found.settings_workspace = str(tmp_path / "out" / "wandb" / "none")
    assert tracker._mode_of(found) == "online"
