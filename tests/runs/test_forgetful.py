"""A machine that goes down: what was not brought to the disk is gone.

POSIX promises no more than this: of a file what was synced last, and of a folder the names that it
held when it was synced last.
"""

import os
import shutil
from pathlib import Path

import pytest

from rayfed import api
from rayfed.executors.serial import SerialExecutor
from rayfed.runs.driver import Driver
from rayfed.testing.studies import mixed


class Down(BaseException):
    """The machine is down: nothing may run any more."""


class Disk:
    """Remembers what was synced below a folder, and goes down at one of its operations.

    Parameters
    ----------
    root : Path
        A folder that is on the disk.
    down_at : int
        The number of the operation, from 1, that the machine does not do.
    """

    def __init__(self, root, down_at):
        self.root, self.down_at, self.count = root, down_at, 0
        self.files, self.folders, self.held = {}, {self._id(root): {}}, []

    def patched(self, operation):
        def counted(*args, **how):
            self.count += 1
            if self.count >= self.down_at:
                raise Down
            return operation(*args, **how)

        return counted

    def fsync(self, handle):
        """Sync a file or a folder, and keep its number from being used again."""
        path = Path(f"/proc/self/fd/{handle}").resolve()
        if path.is_dir():
            self.folders[self._id(path)] = {
                p.name: (self._id(p), p.is_dir()) for p in path.iterdir()
            }
        else:
            self.files[self._id(path)] = path.read_bytes()
        self.held.append(os.open(path, os.O_RDONLY))

    def restore(self, out):
        """Write into a new folder what is on the disk; close what was held open."""
        self._restore(self._id(self.root), out)
        for handle in self.held:
            os.close(handle)

    def _restore(self, number, place):
        place.mkdir()
        for name, (held, is_folder) in self.folders.get(number, {}).items():
            if is_folder:
                self._restore(held, place / name)
            else:
                (place / name).write_bytes(self.files.get(held, b""))

    @staticmethod
    def _id(path):
        return path.stat().st_ino


def driver(plan, out):
    (run,) = plan.runs
    return Driver(run, out, SerialExecutor(plan.tables))


def names_and_sizes(folder):
    return {p.relative_to(folder): p.stat().st_size for p in folder.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def plan():
    stateful = {"name": "local-only", "local": {"steps": 2, "batch": 4}}
    return api.prepare(api.read(mixed(rounds=3, checkpoint={"every_s": 0}, algorithms=[stateful])))


def goes_down(plan, home, number, patch):
    """Run until an operation on files; return the disk and whether the run had ended."""
    home.mkdir()
    disk = Disk(home, number)
    for name in ("mkdir", "rename", "replace", "rmdir", "unlink"):
        patch.setattr(os, name, disk.patched(getattr(os, name)))
    patch.setattr(os, "fsync", disk.patched(disk.fsync))
    try:
        driver(plan, home).execute()
    except Down:
        return disk, False
    finally:
        patch.undo()
    return disk, True


def test_a_machine_that_goes_down_loses_nothing_that_counts(plan, tmp_path, assert_same):
    number, seen = 1, set()
    while True:
        with pytest.MonkeyPatch.context() as patch:
            disk, ended = goes_down(plan, tmp_path / f"disk{number}", number, patch)
        out = tmp_path / f"out{number}"
        disk.restore(out)
        went_on = driver(plan, out)
        seen.add(went_on.records.checkpoint_round())
        assert went_on.execute(resume=True) == "finished", number
        assert went_on.records.damage == [], number
        if number == 1:
            shutil.copytree(out, tmp_path / "calm")
        assert_same(tmp_path / "calm", out)
        if ended:
            break
        number += 7  # not every one: that takes minutes
    assert number > 100
    assert {None, 0, 1, 2, 3} <= seen


def test_a_run_that_ended_is_on_the_disk(plan, tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        disk, ended = goes_down(plan, tmp_path / "disk", 10**9, patch)
    assert ended
    disk.restore(tmp_path / "out")
    assert names_and_sizes(tmp_path / "out") == names_and_sizes(tmp_path / "disk")
