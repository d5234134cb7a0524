"""Whole runs in processes of their own, one to a CPU, for studies of many runs.

A worker takes one run after the other, computes its clients itself, and writes its folder. The
tables of the study lie in one file that all workers map, so that they are in memory once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from rayfed.core.errors import RayfedError
from rayfed.core.own import settled
from rayfed.core.threads import ONE_THREAD
from rayfed.engine.run import Run
from rayfed.runs import logger
from rayfed.runs.backend import STOP, Report, RunProgress
from rayfed.runs.files.run_json import record_failure
from rayfed.runs.tables import read_tables, write_tables

_LOOK_S = 0.25
_TRIES = 3  # workers that a run may lose


class Worker:
    """One process, and what it is at.

    Parameters
    ----------
    out : Path
        The study's result folder.
    memory_gb : float, optional
        Memory that client state may take, in 10^9 bytes.
    """

    def __init__(self, out: Path, memory_gb: float | None) -> None:
        here, there = Pipe()
        # -P: nothing in the current folder is taken for a library
        command = [sys.executable, "-P", "-m", "rayfed.runs.worker", str(there.fileno())]
        # it starts without the user's modules and finds them where this process does
        path = {"PYTHONPATH": os.pathsep.join(p or "." for p in sys.path)}
        environment = dict(os.environ) | ONE_THREAD | path
        # Ctrl-C goes to all processes of a terminal; workers learn of it from this one
        held = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self.process = subprocess.Popen(
                command, pass_fds=[there.fileno()], stdin=subprocess.DEVNULL, env=environment
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
        there.close()
        self.pipe: Connection[Any, Any] = here
        self.run: Run | None = None
        self.tries = 0
        self.pipe.send((str(out), memory_gb, logger.level(), settled()))

    def deal(self, run: Run, tables: Path, resume: bool, tries: int = 0) -> None:
        """Give it a run; the worker may have died, which shows when it is listened to."""
        self.run, self.tries = run, tries
        with suppress(OSError):
            self.pipe.send((run, str(tables), resume or tries > 0))

    def end(self) -> None:
        """Tell the process to end; a run that it is at can be resumed."""
        self.pipe.close()
        self.process.terminate()

    def wait(self) -> None:
        """Wait until it has ended."""
        self.process.wait()


class WorkersStudy:
    """Runs the runs of a study in worker processes.

    Parameters
    ----------
    out : Path
        The study's result folder.
    workers : int
        How many there are at most.
    memory_gb : float, optional
        Memory that client state may take in all of them together, in 10^9 bytes.
    """

    def __init__(self, out: Path, workers: int, memory_gb: float | None = None) -> None:
        self.out, self.most = out, workers
        self.memory_gb = None if memory_gb is None else memory_gb / workers
        self.workers: list[Worker] = []

    def wait(self, report: Any) -> None:
        """Nothing has to start: workers start when runs are executed."""

    def listens(self) -> None:
        """Nobody listens."""

    def execute(
        self, runs: Sequence[Run], tables: dict[str, Any], resume: bool, report: Report
    ) -> dict[str, str]:
        """Run all runs, several at a time, and return the outcome of each by folder."""
        while len(self.workers) < min(len(runs), self.most):
            self.worker()  # they import while tables are written
        with tempfile.TemporaryDirectory(prefix="rayfed-") as folder:
            path = Path(folder) / "tables"
            write_tables(path, tables)
            tables.update(read_tables(path))
            return _Queue(self, runs, path, resume).execute(report)

    def worker(self) -> Worker:
        """Start a worker."""
        self.workers.append(Worker(self.out, self.memory_gb))
        return self.workers[-1]

    def close(self) -> None:
        """End the workers."""
        for worker in self.workers:  # all end at once
            worker.end()
        while self.workers:
            self.workers.pop().wait()


class _Queue:
    """Deals runs to workers, in their order, until all are done."""

    def __init__(
        self, study: WorkersStudy, runs: Sequence[Run], tables: Path, resume: bool
    ) -> None:
        self.study, self.tables, self.resume = study, tables, resume
        self.waiting = list(runs)
        self.outcome: dict[str, str] = {}
        self.progress: dict[str, RunProgress] = {}

    def execute(self, report: Report) -> dict[str, str]:
        for worker in self.study.workers:
            self._deal(worker)
        try:
            while busy := {w.pipe: w for w in self.study.workers if w.run is not None}:
                for pipe in wait(list(busy), _LOOK_S):
                    self._listen(busy[pipe])  # type: ignore[index]
                report(self.progress, self.outcome)
        except KeyboardInterrupt:
            self._stop()
            raise
        report({}, self.outcome)
        return self.outcome

    def _deal(self, worker: Worker) -> None:
        worker.run = None
        if self.waiting:
            worker.deal(self.waiting.pop(0), self.tables, self.resume)

    def _listen(self, worker: Worker) -> None:
        """Take what a worker says: how far its run is, or how it ended."""
        run = worker.run
        assert run is not None
        try:
            said = worker.pipe.recv()
        except (EOFError, OSError):
            self._replace(worker, run)
            return
        if isinstance(said, RunProgress):
            self.progress[run.folder] = said
            return
        if isinstance(said, logger.LogLine):
            said.write()
            return
        self.progress.pop(run.folder, None)
        if isinstance(said, RayfedError):
            said = record_failure(run, self.study.out, said, str(said))
        self.outcome[run.folder] = said
        self._deal(worker)

    def _replace(self, worker: Worker, run: Run) -> None:
        """Give the run of a worker that died to a new one."""
        self.study.workers.remove(worker)
        worker.end()
        worker.wait()
        if worker.tries + 1 < _TRIES:
            self.study.worker().deal(run, self.tables, True, worker.tries + 1)
            return
        status = worker.process.returncode
        error = RayfedError(f"its worker died {_TRIES} times, last with status {status}")
        self.outcome[run.folder] = record_failure(run, self.study.out, error, str(error))
        if self.waiting:
            self._deal(self.study.worker())

    def _stop(self) -> None:
        """Let every run write a checkpoint and end."""
        busy = [worker for worker in self.study.workers if worker.run is not None]
        for worker in busy:
            with suppress(OSError):
                worker.pipe.send(STOP)
        for worker in busy:
            with suppress(EOFError, OSError):
                while isinstance(worker.pipe.recv(), (RunProgress, logger.LogLine)):
                    pass
