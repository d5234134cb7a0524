"""Whole runs in processes of their own, one to a CPU, for studies of many runs.

A worker takes one run after the other, computes its clients itself, and writes its folder. The
tables of the study lie in one file that all workers map, so that they are in memory once. It has no
name, so that nothing is left of it however the processes end. A worker
is a process ``python -m rayfed.runs.workers FD``, whose argument is its end of a pipe (`serve`).
"""

from __future__ import annotations

import mmap
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import recv_handle, send_handle
from pathlib import Path
from typing import IO, Any

from rayfed.core.errors import RayfedError
from rayfed.core.own import settle, settled
from rayfed.core.threads import ONE_THREAD, own_process
from rayfed.engine.run import Run
from rayfed.executors.orphan import end_with_parent
from rayfed.executors.serial import SerialExecutor
from rayfed.runs.backend import Backend, Report, RunProgress
from rayfed.runs.driver import Driver
from rayfed.runs.files.folder import writing
from rayfed.runs.files.run_json import record_failure
from rayfed.runs.logger import LogLine, forward, logger

_LOOK_S = 0.25
_TRIES = 3  # workers that a run may lose
_STOP = "stop"  # in place of a run, or during one: end it, and take no other
_EVERY_S = 0.2  # a worker tells how far it is
_LISTEN_S = 0.02
_ALIGN = 64  # bytes; arrays begin at multiples of it, as they do in memory


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
        command = [sys.executable, "-P", "-m", "rayfed.runs.workers", str(there.fileno())]
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
        self.pipe.send((str(out), memory_gb, logger.getEffectiveLevel(), settled()))

    def deal(self, run: Run, tables: int, resume: bool, tries: int = 0) -> None:
        """Give it a run; the worker may have died, which shows when it is listened to."""
        self.run, self.tries = run, tries
        with suppress(OSError):
            self.pipe.send((run, resume or tries > 0))
            send_handle(self.pipe, tables, self.process.pid)

    def end(self) -> None:
        """Tell the process to end; a run that it is at can be resumed."""
        self.pipe.close()
        self.process.terminate()


class WorkersStudy(Backend):
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

    def execute(
        self, runs: Sequence[Run], tables: dict[str, Any], resume: bool, report: Report
    ) -> dict[str, str]:
        """Run all runs, several at a time, and return the outcome of each by folder."""
        while len(self.workers) < min(len(runs), self.most):
            self.worker()  # they import while tables are written
        with tempfile.TemporaryFile() as file:  # without a name: it goes with the last process
            write_tables(file, tables)
            tables.update(read_tables(file.fileno()))
            return _Queue(self, runs, file.fileno(), resume).execute(report)

    def worker(self) -> Worker:
        """Start a worker."""
        self.workers.append(Worker(self.out, self.memory_gb))
        return self.workers[-1]

    def close(self) -> None:
        """End the workers."""
        for worker in self.workers:  # all end at once
            worker.end()
        while self.workers:
            self.workers.pop().process.wait()


class _Queue:
    """Deals runs to workers, in their order, until all are done."""

    def __init__(self, study: WorkersStudy, runs: Sequence[Run], tables: int, resume: bool) -> None:
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
        if isinstance(said, LogLine):
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
        worker.process.wait()
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
                worker.pipe.send(_STOP)
        for worker in busy:
            with suppress(EOFError, OSError):
                while isinstance(worker.pipe.recv(), (RunProgress, LogLine)):
                    pass


def serve(pipe: Connection[Any, Any]) -> None:
    """Execute the runs that come, until nobody sends any more, which is an EOFError."""
    out, memory_gb, lowest, homes = pipe.recv()
    settle(homes)

    def send(line: LogLine) -> None:
        with suppress(BrokenPipeError):
            pipe.send(line)

    forward(lowest, send)
    mapped, tables = (0, 0), dict[str, Any]()
    while True:
        try:
            dealt = pipe.recv()
        except (AttributeError, ImportError) as error:  # of a user's plug-in
            text = f"a worker does not find a plug-in ({error}); put its class into a module"
            os.close(recv_handle(pipe))
            pipe.send(RayfedError(text))
            continue
        if dealt == _STOP:  # said while a run ended, or to one that has ended since
            return
        run, resume = dealt
        handle = recv_handle(pipe)
        found = os.fstat(handle)
        if mapped != (found.st_dev, found.st_ino):  # one that is mapped keeps its number
            mapped, tables = (found.st_dev, found.st_ino), read_tables(handle)
        os.close(handle)
        try:
            said = _execute(pipe, run, Path(out), tables, resume, memory_gb)
        except OSError as error:  # of the run's folder
            said = record_failure(run, Path(out), error, traceback.format_exc())
        with suppress(BrokenPipeError):  # nobody is left, which `recv` says
            pipe.send(said)


def _execute(
    pipe: Connection[Any, Any],
    run: Run,
    out: Path,
    tables: Mapping[str, Any],
    resume: bool,
    memory_gb: float | None,
) -> str:
    """Execute a run, and return its outcome, see `Driver.execute`."""
    told = heard = time.monotonic()

    def report(progress: RunProgress) -> None:
        nonlocal told, heard
        now = time.monotonic()
        if now - heard > _LISTEN_S:  # to look takes as long as a short round
            heard = now
            if pipe.poll():  # somebody says to stop, or nobody is left
                driver.stop()
                return
        if now - told > _EVERY_S:
            told = now
            with suppress(BrokenPipeError):
                pipe.send(progress)

    with writing(out / run.folder):
        driver = Driver(run, out, SerialExecutor(tables, memory_gb=memory_gb))
        return driver.execute(resume, report)


def write_tables(file: IO[bytes], tables: Mapping[str, Any]) -> None:
    """Write tables so that `read_tables` maps their arrays."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(dict(tables), protocol=5, buffer_callback=buffers.append)
    sizes = [len(buffer.raw()) for buffer in buffers]
    pickle.dump((head, sizes), file)
    for buffer in buffers:
        file.write(b"\0" * (-file.tell() % _ALIGN))
        file.write(buffer.raw())
    file.flush()


def read_tables(handle: int) -> dict[str, Any]:
    """Return the tables of an open file, whose arrays are mapped and cannot be written."""
    held = mmap.mmap(handle, 0, access=mmap.ACCESS_READ)
    head, sizes = pickle.load(held)  # not of the file, whose position all processes share
    place = held.tell()
    whole, buffers = memoryview(held), []
    for size in sizes:
        place += -place % _ALIGN
        buffers.append(whole[place : place + size])
        place += size
    tables: dict[str, Any] = pickle.loads(head, buffers=buffers)
    return tables


def main() -> None:
    """Serve on the connection whose number is the argument."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that deals says when to stop
    end_with_parent()
    own_process()
    with suppress(EOFError):
        serve(Connection(int(sys.argv[1])))


if __name__ == "__main__":
    main()
