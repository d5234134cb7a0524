"""Which processes the machine view tells of."""

import os
import subprocess
import sys

from rayfed.core.leases import LOCK, lease
from rayfed.dashboard.processes import HEADS, table_of


def test_who_holds_the_lock_of_a_study_and_its_children_are_told(tmp_path):
    (tmp_path / "mnist").mkdir()
    (tmp_path / "other").mkdir()
    with (
        lease(tmp_path / "mnist" / LOCK),
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child,
    ):
        title, rows = table_of([tmp_path / "mnist"])
        assert table_of([tmp_path / "other"])[1] == []
        child.stdin.close()
    told = {int(row[0]): row for row in rows}
    assert set(told) >= {os.getpid(), child.pid}
    assert told[os.getpid()][1] == "study mnist"
    assert len(told[child.pid]) == len(HEADS)
    assert told[child.pid][2].endswith("B")
    assert title.startswith(f"{len(rows)} processes on this machine on 20")


def test_a_process_of_two_studies_counts_once(tmp_path, monkeypatch):
    monkeypatch.setattr("rayfed.dashboard.processes.units.size", str)
    folders = [tmp_path / name for name in ("mnist", "other")]
    for folder in folders:
        folder.mkdir()
    with (
        lease(folders[0] / LOCK),
        lease(folders[1] / LOCK),
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child,
    ):
        title, rows = table_of(folders)
        child.stdin.close()
    pids = [int(row[0]) for row in rows]
    assert len(set(pids)) == len(pids) >= 2
    assert title.endswith(f", {sum(int(row[2]) for row in rows)} of memory")


def test_a_driver_in_a_process_of_its_own_is_named_by_its_run(tmp_path):
    run = tmp_path / "mnist" / "fedavg-seed0"
    run.mkdir(parents=True)
    with lease(run / LOCK):
        told = {int(row[0]): row[1] for row in table_of([tmp_path / "mnist"])[1]}
    assert told[os.getpid()] == "run fedavg-seed0"


def test_a_worker_is_named_by_what_it_is(tmp_path):
    words = [sys.executable, "-c", "input()", "-m", "rayfed.runs.workers"]
    with (
        lease(tmp_path / LOCK),
        subprocess.Popen(words, stdin=subprocess.PIPE) as child,
    ):
        told = {int(row[0]): row[1] for row in table_of([tmp_path])[1]}
        child.stdin.close()
    assert told[child.pid] == "worker"
