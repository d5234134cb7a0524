"""Runs whose client state does not fit the memory that it may take."""

import errno
import json
import os

import pytest

from rayfed import api
from rayfed.clients.store import Scratch, ScratchError
from rayfed.executors.serial import SerialExecutor
from rayfed.runs.driver import Driver
from rayfed.runs.files.stops import STOPPED
from rayfed.testing.studies import drive, mixed

TINY_GB = 1e-9


@pytest.fixture(scope="module")
def plan():
    stateful = {"name": "local-only", "local": {"steps": 2, "batch": 4}}
    return api.prepare(api.read(mixed(rounds=5, algorithms=[stateful])))


def scratched(plan, out):
    (run,) = plan.runs
    return Driver(run, out, SerialExecutor(plan.tables, TINY_GB))


def test_scratch_and_small_pieces_change_no_byte(plan, tmp_path, assert_same, monkeypatch):
    drive(plan, tmp_path / "calm")
    for module in ("executors.serial", "runs.files.checkpoints"):
        monkeypatch.setattr(f"rayfed.{module}.PIECE", 200)  # a client has 144 bytes
    monkeypatch.setattr("rayfed.runs.files.checkpoints._SMALL", 0)
    driver = scratched(plan, tmp_path / "out")

    def stop(progress):
        if progress.round == 3:
            driver.stop()

    assert driver.execute(report=stop) == STOPPED
    went_on = scratched(plan, tmp_path / "out")
    assert len(went_on.records.checkpoints.parts) == 0
    assert went_on.execute(resume=True) == "finished"
    assert len(went_on.records.checkpoints.parts) > 4
    assert_same(tmp_path / "calm", tmp_path / "out")


def test_a_full_scratch_disk_ends_the_run_in_one_line_and_a_resume_tries_again(
    plan, tmp_path, monkeypatch
):
    def full(self, name, slot, row):
        raise ScratchError(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

    monkeypatch.setattr(Scratch, "write", full)
    assert scratched(plan, tmp_path).execute() == "failed"
    monkeypatch.undo()
    (run,) = plan.runs
    told = json.loads((tmp_path / run.folder / "run.json").read_text())
    assert told["retry"]
    assert "cannot be used (no space left on device); set RAYFED_SCRATCH" in told["reason"]
    assert scratched(plan, tmp_path).execute(resume=True) == "finished"
