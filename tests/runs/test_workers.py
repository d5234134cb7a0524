"""Workers: runs that survive the death of a worker or a stop; tables in a file that all map."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from multiprocessing import Pipe
from pathlib import Path

import numpy as np
import psutil
import pytest
import yaml

import rayfed
from rayfed import api
from rayfed.core.own import settled
from rayfed.datasets.table import Rows
from rayfed.runs import workers
from rayfed.runs.files.afterwards import complete
from rayfed.runs.workers import WorkersStudy, read_tables, write_tables
from rayfed.testing.studies import mixed


@pytest.fixture
def plan():
    return api.prepare(api.read(mixed(seeds=[0, 1, 2, 3], executor={"name": "workers"})))


@pytest.mark.slow
def test_the_death_of_a_worker_changes_nothing(plan, tmp_path, assert_same):
    before = rayfed.run(mixed(seeds=[0, 1, 2, 3]), out=tmp_path / "serial", page=False)
    folder = api.begin(plan, tmp_path / "out")
    study, dead = WorkersStudy(folder, 2), []

    def report(progress, outcome):
        if len(outcome) == 1 and not dead:
            worker = next(w for w in study.workers if w.run is not None)
            os.kill(worker.process.pid, signal.SIGKILL)
            dead.append(worker.run.folder)

    try:
        outcome = study.execute(plan.runs, plan.tables, False, report)
    finally:
        study.close()
    assert dead
    assert set(outcome.values()) == {"finished"}
    for run in plan.runs:  # as who submitted the study does
        complete(run, plan.tables, folder / run.folder)
    assert_same(before.folder, folder)


@pytest.mark.slow
def test_a_run_whose_workers_keep_dying_fails_and_the_others_go_on(plan, tmp_path):
    folder = api.begin(plan, tmp_path / "out")
    study = WorkersStudy(folder, 1)
    doomed = plan.runs[1].folder

    def report(progress, outcome):
        for worker in study.workers:
            if worker.run is not None and worker.run.folder == doomed:
                os.kill(worker.process.pid, signal.SIGKILL)

    try:
        outcome = study.execute(plan.runs, plan.tables, False, report)
    finally:
        study.close()
    assert outcome.pop(doomed) == "failed"
    assert set(outcome.values()) == {"finished"}
    assert "died 3 times, last with status -9" in (folder / doomed / "run.json").read_text()


@pytest.mark.slow
def test_a_stop_leaves_checkpoints_to_go_on_from(plan, tmp_path, assert_same):
    before = rayfed.run(mixed(seeds=[0, 1, 2, 3]), out=tmp_path / "serial", page=False)
    folder = api.begin(plan, tmp_path / "out")
    study = WorkersStudy(folder, 2)

    def report(progress, outcome):
        if len(outcome) >= 1:
            raise KeyboardInterrupt

    try:
        with pytest.raises(KeyboardInterrupt):
            study.execute(plan.runs, plan.tables, False, report)
    finally:
        study.close()
    rayfed.resume(folder, page=False)
    assert_same(before.folder, folder)


def test_workers_start_while_tables_are_written_with_one_thread(plan, tmp_path, monkeypatch):
    study, begun = WorkersStudy(tmp_path, 2), []

    def written(file, tables):
        write_tables(file, tables)
        for worker in study.workers:
            file = Path(f"/proc/{worker.process.pid}/environ")
            while not (environment := file.read_bytes()):
                pass  # empty while the process begins its program
            begun.append(b"OPENBLAS_NUM_THREADS=1" in environment.split(b"\0"))
        raise OSError("no space left")

    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "4")
    monkeypatch.setattr(workers, "write_tables", written)
    try:
        with pytest.raises(OSError, match="no space left"):
            study.execute(plan.runs, plan.tables, False, lambda *_: None)
    finally:
        study.close()
    assert begun == [True, True]


def test_a_plug_in_that_workers_cannot_find_is_one_line(tmp_path, monkeypatch):
    import __main__
    from rayfed.algorithms import FedAvg

    class Mine(FedAvg):
        name = "mine"

    Mine.__module__, Mine.__qualname__ = "__main__", "Mine"
    monkeypatch.setattr(__main__, "Mine", Mine, raising=False)
    made = mixed(executor="workers", rounds=1, seeds=[0])
    made["algorithms"] = [{"name": Mine, "local": {"steps": 1}}]
    plan = api.prepare(api.read(made))
    folder = api.begin(plan, tmp_path / "out")
    study = WorkersStudy(folder, 1)
    try:
        (status,) = study.execute(plan.runs, plan.tables, False, lambda *_: None).values()
    finally:
        study.close()
    assert status == "failed"
    assert "put its class into a module" in next(folder.glob("*/run.json")).read_text()


def _workers(process, tmp_path):
    """Return whether a worker process is there, which imports for a second or two."""
    return bool(psutil.Process(process.pid).children())


def _runs(process, tmp_path):
    """Return whether a run has a few rounds behind it."""
    manifests = list(tmp_path.glob("out/*/checkpoint/manifest.json"))
    return any(json.loads(path.read_text())["round"] >= 3 for path in manifests)


@pytest.mark.parametrize("begun", [_workers, _runs])
def test_ctrl_c_at_a_terminal_is_a_line(begun, tmp_path):
    """It goes to the whole process group: to workers that import, and to those at a run."""
    slow = {"clock": {"name": "wall", "scale": 0.01}, "checkpoint": {"every_s": 0}}
    scenario = mixed(seeds=[0, 1], rounds=50, executor={"name": "workers", "workers": 2})
    (tmp_path / "long.yaml").write_text(yaml.safe_dump(scenario | slow))
    command = [sys.executable, "-m", "rayfed", "run", "long.yaml", "--out", "out"]
    with subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        while process.poll() is None and not begun(process, tmp_path):
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert said.splitlines()[-1].endswith("resume with: rayfed resume out")


def test_tables_are_mapped_where_arrays_lie_in_memory():
    rng = np.random.default_rng(0)
    tables = {
        "a": Rows(rng.normal(size=(7, 3)), np.arange(7), (3,)),
        "b": Rows(np.arange(5, dtype=np.uint8)[:, None], np.zeros(5), (1,), 255.0, 0.5),
    }
    found = mapped(tables)
    for name, rows in tables.items():
        np.testing.assert_array_equal(found[name].X, rows.X)
        np.testing.assert_array_equal(found[name].y, rows.y)
        assert found[name].X.ctypes.data % 64 == 0
        assert not found[name].X.flags.writeable
    assert mapped({}) == {}


def mapped(tables):
    with tempfile.TemporaryFile() as file:
        write_tables(file, tables)
        return read_tables(file.fileno())


def test_tables_have_no_name_in_the_temporary_folder(plan, tmp_path, monkeypatch):
    """A process that is killed could not remove them."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    folder, seen = api.begin(plan, tmp_path / "out"), []
    study = WorkersStudy(folder, 1)
    try:
        ended = study.execute(
            plan.runs[:1], plan.tables, False, lambda *_: seen.extend(os.listdir(tempfile.tempdir))
        )
    finally:
        study.close()
    assert [*ended.values()] == ["finished"]
    assert seen == []


def test_tables_of_later_trials_are_shared_too(tmp_path):
    """A sweep adds tables between its batches; workers read them at another place of the file."""
    study = WorkersStudy(tmp_path, 1)
    tables, places, found = {"a": Rows(np.ones((3, 2)), np.arange(3), (2,))}, [], []
    for name in ("a", "b", "b"):
        tables.setdefault(name, Rows(np.full((4, 2), 5.0), np.arange(4), (2,)))
        study._share(tables)
        places.append(study.place)
        found.append(read_tables(study.file.fileno(), study.place))
    study.close()
    assert [list(each) for each in found] == [["a"], ["a", "b"], ["a", "b"]]
    assert places[0] < places[1] == places[2]
    np.testing.assert_array_equal(found[1]["b"].X, tables["b"].X)
    assert not tables["b"].X.flags.writeable


def test_a_worker_that_starts_during_a_stop_is_stopped_too(tmp_path):
    study = WorkersStudy(tmp_path, 1)
    study._stop()
    worker = study._start()
    try:
        assert worker.process.wait(30) in (0, -signal.SIGUSR1)  # while it imports, or at its end
    finally:
        study.close()


def test_a_worker_whose_parent_died_while_it_started_takes_no_run(plan, tmp_path):
    """What is in the pipe would be computed anew, though another process may have resumed it."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    here, there = Pipe()
    with tempfile.TemporaryFile() as tables:
        write_tables(tables, plan.tables)
        here.send((tmp_path, None, 30, settled()))
        here.send((plan.runs[0], 0, False))
        ends = (there.fileno(), tables.fileno())
        command = [sys.executable, "-m", "rayfed.runs.workers", *map(str, (*ends, gone.pid))]
        worker = subprocess.run(command, pass_fds=ends, timeout=60, stderr=subprocess.PIPE)
    assert (worker.returncode, worker.stderr) == (1, b"")  # without a traceback
    assert [*tmp_path.iterdir()] == []
