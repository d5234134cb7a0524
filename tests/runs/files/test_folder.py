"""Who writes a result folder holds its lock, and the next one waits."""

import errno
import os
import subprocess
import sys
import threading

import pytest

from rayfed.core import leases
from rayfed.core.errors import ScenarioError
from rayfed.core.leases import LOCK, Leased
from rayfed.runs.files import folder as folders
from rayfed.runs.files import store
from rayfed.runs.files.folder import create, locked, writing

DRIVER = """
import sys, time
from pathlib import Path
from rayfed.runs.files.folder import writing
with writing(Path(sys.argv[1])):
    print("writes", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def orphan(tmp_path):
    """A process that writes a run of a result folder, as a driver does whose study was killed."""
    create(tmp_path / "out")
    (tmp_path / "out" / "scenario.yaml").touch()
    run = tmp_path / "out" / "fedavg-seed0"
    command = [sys.executable, "-c", DRIVER, str(run)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "writes\n"
        yield process
        process.kill()


def test_a_driver_that_was_left_is_waited_for(orphan, tmp_path):
    said, out, killed = [], tmp_path / "out", threading.Event()

    def kill():  # a lock is given up a moment before the process can be waited for
        killed.set()
        orphan.kill()

    def tell(line):
        said.append(line)
        threading.Timer(0.3, kill).start()

    with locked(out, tell):
        assert killed.is_set()
    (line,) = said
    assert line.startswith(f"an earlier process's drivers still write 1 run of {out}; waiting")
    with locked(out, tell), writing(out / "fedavg-seed0"):
        pass
    assert len(said) == 1


def test_one_that_does_not_end_is_a_sentence(orphan, tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "WAIT_S", 0.1)
    out = tmp_path / "out"
    with pytest.raises(ScenarioError, match="a driver of an earlier process still writes fedavg-s"):
        create(out)  # nor are its results moved aside
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    with pytest.raises(BlockingIOError, match=r"has been writing this run for 0\.1 s"):
        writing(out / "fedavg-seed0").__enter__()


def test_a_lock_is_held_once(tmp_path):
    with store.lease(tmp_path / LOCK):
        assert store.is_leased(tmp_path / LOCK)
        with pytest.raises(Leased), store.lease(tmp_path / LOCK):
            pass
    assert not store.is_leased(tmp_path / LOCK)


def test_where_earlier_results_went_is_said(tmp_path):
    told = []
    for _ in range(3):
        create(tmp_path / "out", told.append)
        (tmp_path / "out" / "scenario.yaml").write_text("name: x")
    assert told == [f"earlier results moved aside to {tmp_path}/out.{k}" for k in (1, 2)]


@pytest.mark.parametrize(("number", "why"), [
    (errno.ENOLCK, "is on a file system without locks .no locks available."),
    (errno.EACCES, "cannot be written .permission denied.; choose another folder"),
])  # fmt: skip
def test_what_a_file_system_refuses_is_a_line(tmp_path, monkeypatch, number, why):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    create(tmp_path / "out")
    monkeypatch.setattr(leases, "opened" if number == errno.EACCES else "_lock", refuse)
    with pytest.raises(ScenarioError, match=why), locked(tmp_path / "out"):
        pass


def test_a_lock_that_is_a_link_is_a_line(tmp_path):
    create(tmp_path / "out")
    (tmp_path / "out" / LOCK).unlink()
    (tmp_path / "out" / LOCK).symlink_to(tmp_path / "mine")
    with pytest.raises(ScenarioError, match=r"\.lock: is a link"), locked(tmp_path / "out"):
        pass
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOSYS, errno.EIO])
def test_folders_that_cannot_be_synced_are_no_error(tmp_path, monkeypatch, number):
    def refuse(_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    if number == errno.EIO:
        with pytest.raises(OSError, match=os.strerror(number)):
            store.sync_folder(tmp_path)
    else:
        store.sync_folder(tmp_path)
