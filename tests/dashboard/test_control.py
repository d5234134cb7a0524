"""What the browser may do to studies."""

import shutil
import subprocess
import sys
import time

import pytest

from rayfed.core.errors import ScenarioError
from rayfed.core.leases import LOCK, lease
from rayfed.core.notes import FILE, Notes
from rayfed.dashboard.catalogue import Catalogue
from rayfed.dashboard.control import LOG, SOON_S, Control
from rayfed.report.writing import LOGGING


@pytest.fixture
def control(folder):
    catalogue = Catalogue([folder])
    catalogue.look()
    return Control(catalogue)


def test_a_study_is_extended_by_the_command(control, folder, assert_same, tmp_path, monkeypatch):
    import rayfed
    from rayfed.testing.studies import mixed

    monkeypatch.setattr("rayfed.dashboard.control.SOON_S", 0.0)
    told = control.do("extend", {"study": "results/deep/second", "rounds": "12", "seeds": "3,4"})
    assert told == f"extend of results/deep/second has started; its output is in {LOG}"
    with pytest.raises(ScenarioError, match="is running already"):
        control.do("resume", {"study": "results/deep/second"})
    assert control.started["results/deep/second"].wait(120) == 0
    assert "asked to" not in (folder / "deep" / "second" / LOG).read_text()
    rayfed.run(mixed(seeds=[3, 4]), out=tmp_path / "whole", page=False)
    assert_same(tmp_path / "whole", folder / "deep" / "second")


def test_the_answer_names_why_a_command_fails(control, folder, monkeypatch):
    monkeypatch.setattr("rayfed.dashboard.control.SOON_S", 60.0)
    with pytest.raises(ScenarioError) as caught:
        control.do("extend", {"study": "results/first", "rounds": "3"})
    assert (folder / "first" / LOG).read_text().endswith(f"rayfed: {caught.value}\n")
    assert "rounds" in str(caught.value)


def test_the_answer_waits_for_the_first_run_or_a_failure(control, folder, monkeypatch):
    """Neither a slow start hides a failure nor does a run that has begun hold the answer."""
    fails = "import time; time.sleep(0.3); print('rayfed: no data'); exit(1)"
    begins = "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); input()"
    lock = next((folder / "first").glob("*/run.json")).with_name(LOCK)
    lock.touch()
    codes, real = [fails, fails, begins, "pass"], subprocess.Popen

    def start(command, stdin, **options):
        command = [sys.executable, "-c", codes.pop(0), str(lock)]
        return real(command, stdin=subprocess.PIPE, **options)

    monkeypatch.setattr("rayfed.dashboard.control.subprocess.Popen", start)
    with pytest.raises(ScenarioError, match=r"^no data$"):
        control.do("resume", {"study": "results/first"})
    with lease(lock), pytest.raises(ScenarioError, match=r"^no data$"):  # another process runs it
        control.do("resume", {"study": "results/first"})
    began = time.monotonic()
    assert "has started" in control.do("resume", {"study": "results/first"})
    assert time.monotonic() - began < SOON_S / 2
    control.started["results/first"].communicate(b"\n")
    assert "has ended" in control.do("resume", {"study": "results/first"})  # nothing was to do


@pytest.mark.guard
def test_a_button_sends_no_rows_for_somebody_else(control, folder, monkeypatch):
    monkeypatch.setattr("rayfed.dashboard.control.SOON_S", 60.0)
    (folder / "first" / LOGGING).write_text('{"mlflow": {}, "seal": "theirs"}', encoding="utf-8")
    with pytest.raises(ScenarioError, match=r"resume with --log mlflow, else remove it$"):
        control.do("resume", {"study": "results/first"})


@pytest.mark.parametrize(
    ("what", "given", "text"),
    [
        ("resume", {"study": "../elsewhere"}, "no study"),
        ("resume", {}, "no study"),
        ("burn", {"study": "results/first"}, "is no action; use stop, resume"),
        ("note", {"study": "results/first"}, "other values than texts"),
        ("note", {"study": "results/first", "text": "", "tags": ["a b"]}, "give words"),
        ("delete", {"study": "results/first"}, "type 'first' to delete it"),
        ("delete", {"study": "results/first", "name": "results/first"}, "type 'first'"),
        ("stop", {"study": "results/first"}, "nobody runs this study"),
        ("extend", {"study": "results/first", "rounds": "--out=x"}, "give numbers"),
        ("extend", {"study": "results/first", "seeds": "3;rm"}, "give numbers"),
    ],
)
def test_what_does_not_suit_is_refused(control, folder, what, given, text):
    with pytest.raises(ScenarioError, match=text):
        control.do(what, given)
    assert not control.started
    assert not (folder / "first" / LOG).exists()
    assert not (folder / "first" / FILE).exists()


def test_notes_are_saved_and_kept_through_the_archive(control, folder):
    study = {"study": "results/first"}
    control.do("archive", study)
    control.do("note", study | {"text": "Steep.", "tags": "b a"})
    assert Notes.read(folder / "first") == Notes("Steep.", ("a", "b"), archived=True)
    control.do("restore", study)
    assert Notes.read(folder / "first") == Notes("Steep.", ("a", "b"))


def test_a_study_is_deleted_but_not_the_targets_of_its_links(control, folder, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine.txt").write_text("mine")
    (folder / "first" / "away").symlink_to(outside)
    (folder / "first" / "file").symlink_to(outside / "mine.txt")
    assert control.do("delete", {"study": "results/first", "name": "first"}) == (
        "results/first is deleted"
    )
    assert {path.name for path in folder.iterdir()} == {"deep"}
    assert (outside / "mine.txt").read_text() == "mine"


def test_a_study_that_runs_is_not_deleted(control, folder):
    running = pytest.raises(ScenarioError, match="this program is running the study")
    with lease(folder / "first" / LOCK), running:
        control.do("delete", {"study": "results/first", "name": "first"})
    control.started["results/first"] = subprocess.Popen(["sleep", "60"])
    with pytest.raises(ScenarioError, match="is running already"):
        control.do("delete", {"study": "results/first", "name": "first"})
    control.started["results/first"].kill()
    control.started["results/first"].wait()
    assert (folder / "first" / "scenario.yaml").is_file()


def test_only_result_folders_are_deleted(control, folder, tmp_path, monkeypatch):
    """A folder that became a link, with another study, with other files, or where we are."""
    given = {"study": "results/first", "name": "first"}
    moved = (folder / "first").rename(tmp_path / "moved")
    (folder / "first").symlink_to(moved)
    with pytest.raises(ScenarioError, match="is a link"):
        control.do("delete", given)
    (folder / "first").unlink()
    moved.rename(folder / "first")
    with monkeypatch.context() as patch:
        patch.chdir(folder / "first" / "fedavg-seed3")
        with pytest.raises(ScenarioError, match="is where we are"):
            control.do("delete", given)
    shutil.copytree(folder / "deep" / "second", folder / "first" / "inner")
    with pytest.raises(ScenarioError, match="holds another study, inner; move that first"):
        control.do("delete", given)
    (folder / "first" / "deeper").mkdir()
    (folder / "first" / "inner").rename(folder / "first" / "deeper" / "inner")
    with pytest.raises(ScenarioError, match="holds another study, deeper/inner; move that first"):
        control.do("delete", given)
    shutil.rmtree(folder / "first" / "deeper")
    (folder / "first" / "scenario.yaml").unlink()
    with pytest.raises(ScenarioError, match="holds files that are no results"):
        control.do("delete", given)
    assert (folder / "first" / "fedavg-seed3" / "run.json").is_file()


def test_the_end_waits_no_longer_for_the_first_round(control, monkeypatch):
    real = subprocess.Popen

    def start(command, stdin, **options):
        return real([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, **options)

    monkeypatch.setattr("rayfed.dashboard.control.subprocess.Popen", start)
    monkeypatch.setattr("rayfed.dashboard.control.SOON_S", 600.0)
    lines = []
    control.end(lines.append)
    assert "has started" in control.do("resume", {"study": "results/first"})
    assert control.started["results/first"].poll() is None
    control.started["results/first"].communicate(b"\n")
    assert lines == []
