import json
import os
import re
import shutil
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

import rayfed
from rayfed import api
from rayfed.algorithms import FedAvg
from rayfed.core.run_state import read_record
from rayfed.executors.base import HostLost
from rayfed.executors.serial import SerialExecutor
from rayfed.runs.driver import Driver
from rayfed.runs.files.outcome import damaged, differences, ended, outcomes, reason
from rayfed.runs.files.stops import STOPPED
from rayfed.runs.serial import SerialStudy
from rayfed.testing.studies import mixed as mixed_study

pytestmark = pytest.mark.guard


class Crash(BaseException):
    """The process ends here: nothing that the driver does about errors may run."""


class Flaky(SerialExecutor):
    """Loses its clients at some of its exchanges, like an actor that is killed."""

    def __init__(self, tables, lose_at):
        super().__init__(tables)
        self.lose_at, self.calls = set(lose_at), 0

    def exchange(self, key, request, send):
        self.calls += 1
        if self.calls in self.lose_at:
            self.host.close(key)
            raise HostLost("a client actor was lost")
        return super().exchange(key, request, send)


@pytest.fixture
def plan(mixed):
    stateful = {"name": "local-only", "local": {"steps": 5, "batch": 4, "lr": 0.1}}
    return api.prepare(api.read(mixed(algorithms=[stateful])))


def drive(plan, out, lose_at=()):
    (run,) = plan.runs
    return Driver(run, out, Flaky(plan.tables, lose_at))


def finish(plan, out, **how):
    driver = drive(plan, out, **how)
    assert driver.execute() == "finished"
    return driver


@pytest.mark.parametrize("lose_at", [{1}, {2}, {9, 10, 25}, {26}])
def test_a_run_that_loses_its_clients_ends_with_the_same_bytes(
    plan, tmp_path, assert_same, lose_at
):
    calm = finish(plan, tmp_path / "calm")
    assert calm.executor.calls >= 26  # so that every loss below happens
    finish(plan, tmp_path / "lost", lose_at=lose_at)
    assert_same(tmp_path / "calm", tmp_path / "lost")
    log = (tmp_path / "lost" / plan.runs[0].folder / "log.txt").read_text()
    assert log.count("a client actor was lost") == len(lose_at)
    assert "to replay" in log


def test_a_run_that_is_stopped_goes_on_to_the_same_bytes(plan, tmp_path, assert_same):
    calm = finish(plan, tmp_path / "calm")
    driver = drive(plan, tmp_path / "stopped")

    def stop(progress):
        if progress.round == 5:
            driver.stop()

    assert driver.execute(report=stop) == STOPPED
    told = json.loads((tmp_path / "stopped" / plan.runs[0].folder / "run.json").read_text())
    assert told["status"] == "running"
    again = drive(plan, tmp_path / "stopped")
    assert again.execute(resume=True) == "finished"
    # of twelve rounds the first five were not run again
    assert again.executor.calls < 0.7 * calm.executor.calls
    assert_same(tmp_path / "calm", tmp_path / "stopped")


def test_a_crash_at_the_very_end_changes_nothing(plan, tmp_path, assert_same, monkeypatch):
    finish(plan, tmp_path / "calm")
    driver = drive(plan, tmp_path / "crash")

    def crash(*args):
        raise Crash

    monkeypatch.setattr(driver.records, "finish", crash)
    with pytest.raises(Crash):
        driver.execute()
    assert drive(plan, tmp_path / "crash").execute(resume=True) == "finished"
    assert_same(tmp_path / "calm", tmp_path / "crash")


def test_a_rule_that_was_met_at_the_last_checkpoint_still_ends_the_run(
    mixed, tmp_path, assert_same, monkeypatch
):
    plan = api.prepare(api.read(mixed(stop={"time_s": 1e-9})))
    finish(plan, tmp_path / "calm")
    driver = drive(plan, tmp_path / "crash")

    def crash(*args):
        raise Crash

    monkeypatch.setattr(driver.records, "finish", crash)
    with pytest.raises(Crash):
        driver.execute()
    drive(plan, tmp_path / "crash").execute(resume=True)
    assert_same(tmp_path / "calm", tmp_path / "crash")
    told = json.loads((tmp_path / "crash" / plan.runs[0].folder / "run.json").read_text())
    assert told["stopped_by"] == "time_s"


def test_clients_that_are_lost_for_ever_end_the_run(plan, tmp_path):
    driver = drive(plan, tmp_path, lose_at=range(1000))
    assert driver.execute() == "failed"
    told = json.loads((tmp_path / plan.runs[0].folder / "run.json").read_text())
    assert "clients were lost" in told["reason"]


def test_losses_with_checkpoints_in_between_never_end_a_run(mixed, tmp_path):
    """A run of many days on machines that come and go loses clients more than twenty times."""
    plan = api.prepare(api.read(mixed(rounds=30)))
    assert drive(plan, tmp_path, lose_at=range(4, 1000, 3)).execute() == "finished"
    log = (tmp_path / plan.runs[0].folder / "log.txt").read_text()
    assert log.count("back to the checkpoint") > 20


@dataclass(frozen=True, kw_only=True)
class Clumsy(FedAvg):
    """Its server function fails."""

    def round(self, state):
        raise KeyError("the map")


def test_a_server_half_that_raises_fails_its_run_alone(mixed, tmp_path):
    good = {"name": "fedavg", "local": {"steps": 2}}
    result = rayfed.run(
        mixed(algorithms=[Clumsy(label="clumsy"), good]), out=tmp_path / "out", page=False
    )
    assert result.outcome == {"clumsy-seed3": "failed", "fedavg-seed3": "finished"}
    why = reason(tmp_path / "out" / "clumsy-seed3")
    assert re.fullmatch(r"after round 0: KeyError: 'the map' \(test_driver\.py:\d+\)", why)
    log = (tmp_path / "out" / "clumsy-seed3" / "log.txt").read_text()
    assert "Traceback" in log
    assert 'raise KeyError("the map")' in log
    assert len(result.rounds.query("label == 'clumsy'")) == 1  # what was recorded is kept


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (AssertionError(), "AssertionError"),
        (ValueError("one line"), "ValueError: one line"),
        (SystemExit(3), "SystemExit: 3"),
        # as Ray raises again what an actor raised
        (OSError("ray::HostActor.open()\n  at 3\nImportError: no mine\n"), "ImportError: no mine"),
    ],
)
def test_whatever_went_wrong_is_one_line(plan, tmp_path, monkeypatch, error, line):
    driver = drive(plan, tmp_path)

    def broken(*args):
        raise error

    monkeypatch.setattr(driver.executor, "open", broken)
    assert driver.execute() == "failed"
    why = reason(tmp_path / plan.runs[0].folder)
    assert re.fullmatch(rf"after round 0: {line} \(test_driver\.py:\d+\)", why)


def test_a_full_disk_fails_the_run_and_a_resume_goes_on(plan, tmp_path, assert_same, monkeypatch):
    finish(plan, tmp_path / "calm")
    replace, writes = os.replace, iter(range(10**6))

    def full(*args):
        if next(writes) > 20:
            raise OSError(28, "No space left on device")
        replace(*args)

    driver = drive(plan, tmp_path / "full")
    monkeypatch.setattr(os, "replace", full)
    assert driver.execute() == "failed"
    monkeypatch.undo()
    assert "is the disk full" in reason(tmp_path / "full" / plan.runs[0].folder)
    assert ended(tmp_path / "full", [run.folder for run in plan.runs]) == {}
    assert drive(plan, tmp_path / "full").execute(resume=True) == "finished"
    assert_same(tmp_path / "calm", tmp_path / "full")


def test_a_run_that_the_machine_let_down_says_why_and_is_tried_again(plan, tmp_path, monkeypatch):
    driver = drive(plan, tmp_path)
    monkeypatch.setattr(driver.records, "save", lambda *args: (tmp_path / "no" / "f").touch())
    assert driver.execute() == "failed"
    assert reason(tmp_path / plan.runs[0].folder).startswith("after round 0: FileNotFoundError:")
    assert ended(tmp_path, [run.folder for run in plan.runs]) == {}


def test_a_folder_that_cannot_be_made_fails_its_run_alone(mixed, tmp_path, monkeypatch):
    local = {"steps": 2}
    made = mixed(algorithms=[{"name": n, "local": local} for n in ("fedavg", "fedexp")])
    plan = api.prepare(api.read(made))
    (tmp_path / "fedavg-seed3").write_text("a file is in the way")
    outcome = SerialStudy(tmp_path).execute(plan.runs, plan.tables, False, lambda *args: None)
    assert outcome == {"fedavg-seed3": "failed", "fedexp-seed3": "finished"}


OPERATIONS = ("mkdir", "rename", "replace", "rmdir", "unlink")


@contextmanager
def ends_at(number):
    """End the process at so many-eth operation on files; yield how many there were."""
    count = [0]

    def patched(operation):
        def counted(*args, **how):
            count[0] += 1
            if count[0] >= number:
                raise Crash
            return operation(*args, **how)

        return counted

    with pytest.MonkeyPatch.context() as patch:
        for name in OPERATIONS:
            patch.setattr(os, name, patched(getattr(os, name)))
        yield count


@pytest.mark.parametrize(
    ("every_s", "rounds"),
    [(0, 1), *(pytest.param(every_s, 2, marks=pytest.mark.slow) for every_s in (0, 1e9))],
)
def test_a_crash_between_any_two_operations_on_files_changes_nothing(
    mixed, tmp_path, assert_same, every_s, rounds
):
    stateful = {"name": "local-only", "local": {"steps": 2, "batch": 4}}
    made = mixed(rounds=rounds, checkpoint={"every_s": every_s}, algorithms=[stateful])
    plan = api.prepare(api.read(made))
    with ends_at(10**6) as count:
        finish(plan, tmp_path / "calm")
    assert count[0] > 25
    for number in range(1, count[0] + 1):
        out = tmp_path / str(number)
        with ends_at(number), pytest.raises(Crash):
            drive(plan, out).execute()
        assert drive(plan, out).execute(resume=True) == "finished", number
        assert_same(tmp_path / "calm", out)
        leftovers = [f for f in out.rglob("*") if f.suffix in (".tmp", ".new", ".old")]
        assert leftovers == [], number


def emptied(path):
    path.write_bytes(b"")


def torn(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def altered(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def replaced_by_a_folder(path):
    path.unlink()
    path.mkdir()


DAMAGE = {
    "emptied": emptied, "torn": torn, "altered": altered, "gone": os.unlink,
    "folder": replaced_by_a_folder,
}  # fmt: skip


@pytest.fixture(scope="module")
def halfway(tmp_path_factory):
    """A run that nothing disturbed, and one that was stopped after five of its rounds."""
    stateful = {"name": "local-only", "local": {"steps": 5, "batch": 4, "lr": 0.1}}
    made = mixed_study(rounds=8, algorithms=[stateful], checkpoint={"every_s": 0})
    plan, home = api.prepare(api.read(made)), tmp_path_factory.mktemp("halfway")
    finish(plan, home / "calm")
    driver = drive(plan, home / "stopped")
    driver.records.every_s = 0  # a part for every round

    def stop(progress):
        if progress.round == 5:
            driver.stop()

    assert driver.execute(report=stop) == STOPPED
    return plan, home


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize(
    ("victim", "back_to"),
    [
        ("checkpoint/manifest.json", 4),
        ("checkpoint/server-5.npz", 4),
        ("checkpoint/clients-5-0.npz", 4),
        ("checkpoint/clients-3-0.npz", None),
        ("rounds.parquet/part-000000000005.parquet", 4),
        ("events.parquet/*", None),  # the first
    ],
)
def test_a_damaged_file_is_said_and_healed_to_the_same_bytes(
    halfway, tmp_path, assert_same, victim, back_to, how
):
    plan, home = halfway
    out, (run,) = tmp_path / "out", plan.runs
    shutil.copytree(home / "stopped", out)
    path = min((out / run.folder).glob(victim))
    DAMAGE[how](path)
    driver, seen = drive(plan, out), []
    assert driver.execute(resume=True, report=lambda p: seen.append(p.round)) == "finished"
    assert_same(home / "calm", out)
    lines = read_record(out / run.folder)["warnings"]
    # what is gone with the newest manifest is nothing that anybody could miss
    silent = how == "gone" and path.name == "manifest.json"
    assert len(lines) == (0 if silent else 1 if back_to else 2)
    assert all(line.startswith("the checkpoint cannot be used: ") for line in lines)
    assert all(path.name in line for line in lines)
    assert seen[0] == (1 if back_to is None else back_to + 1)


def test_both_checkpoints_may_be_damaged(halfway, tmp_path, assert_same):
    plan, home = halfway
    out, (run,) = tmp_path / "out", plan.runs
    shutil.copytree(home / "stopped", out)
    for path in (out / run.folder / "checkpoint").iterdir():
        emptied(path)
    assert drive(plan, out).execute(resume=True) == "finished"
    assert_same(home / "calm", out)


def test_a_part_that_goes_while_the_run_goes_on_is_replayed(halfway, tmp_path, assert_same):
    plan, home = halfway
    driver, (run,) = drive(plan, tmp_path), plan.runs
    driver.records.every_s = 0

    def lose(progress):
        if progress.round == 7 and not (tmp_path / "once").exists():
            (tmp_path / "once").touch()
            min((tmp_path / run.folder / "events.parquet").iterdir()).unlink()

    assert driver.execute(report=lose) == "finished"
    assert_same(home / "calm", tmp_path)
    assert "is missing" in (tmp_path / run.folder / "log.txt").read_text()


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("victim", ["events.parquet/*", "model.npz", "clients.parquet"])
def test_a_finished_run_that_was_damaged_is_no_longer_ended(
    halfway, tmp_path, assert_same, victim, how
):
    plan, home = halfway
    out, (run,) = tmp_path / "out", plan.runs
    shutil.copytree(home / "calm", out)
    assert ended(out, [run.folder]) == {run.folder: "finished"}
    assert damaged(out, [run.folder]) == []
    path = min((out / run.folder).glob(victim))
    DAMAGE[how](path)
    assert ended(out, [run.folder]) == {}
    (line,) = damaged(out, [run.folder])
    assert run.folder in line
    assert path.name in line
    assert drive(plan, out).execute(resume=True) == "finished"
    assert_same(home / "calm", out)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "3", '{"status": 4}', "\0" * 50])
def test_a_damaged_record_is_one_line_and_runs_again(halfway, tmp_path, assert_same, text):
    plan, home = halfway
    out, (run,) = tmp_path / "out", plan.runs
    shutil.copytree(home / "calm", out)
    (out / run.folder / "run.json").write_text(text)
    assert ended(out, [run.folder]) == {}
    assert damaged(out, [run.folder]) == [f"{run.folder}: run.json is not what was written"]
    assert differences(out, [run.folder]) == []
    assert outcomes(out) == {run.folder: "failed"}
    assert drive(plan, out).execute(resume=True) == "finished"
    assert_same(home / "calm", out)


def test_what_only_a_later_round_shows_to_be_wrong_is_one_line(mixed, tmp_path):
    """The links of a star go down by chance, and nothing repairs it."""
    made = mixed(topology={"name": "star", "loss": 0.1, "every": 1}, rounds=60)
    made["clients"] = {"count": 5}
    made["participation"] = {"select": "walk"}
    outcome = api.run(made, out=tmp_path, page=False)
    (run,) = outcome.folder.glob("*/run.json")
    record = json.loads(run.read_text())
    assert record["status"] == "failed"
    assert "set disconnected to" in record["reason"]
    log = (run.parent / "log.txt").read_text()
    assert record["reason"] in log
    assert "Traceback" not in log
