"""Whole runs in processes of their own, one to a CPU, for studies of many runs.

A worker takes one run after the other, computes its clients itself, and writes its folder. The
tables of the study are in one file that all workers map, so that they are in memory once. The file
has no name, so that nothing is left of it however the processes end. A worker is a process
``python -m rayfed.runs.workers PIPE TABLES PARENT``: its end of a pipe, that file, and the id of
the process that deals out runs.
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
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event
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
from rayfed.runs.files.stops import STOPPED
from rayfed.runs.logger import LogLine, forward, logger

_LOOK_S = 0.25
_TRIES = 3  # workers that a run may lose
_STOP = signal.SIGUSR1  # to a worker: end the run, and take no other
_EVERY_S = 0.2  # between reports of a worker's progress
_ALIGN = 64  # bytes; arrays begin at multiples of it, as they do in memory


class Worker:
    """One process, and the run that it executes.

    Parameters
    ----------
    out : Path
        The study's result folder.
    tables : int
        The file of the tables.
    memory_gb : float, optional
        Memory that client state may take, in 10^9 bytes.
    """

    def __init__(self, out: Path, tables: int, memory_gb: float | None) -> None:
        here, there = Pipe()
        ends = (there.fileno(), tables)
        # -P: nothing in the current folder is taken for a library
        command = [sys.executable, "-P", "-m", "rayfed.runs.workers"]
        command += map(str, (*ends, os.getpid()))
        # it starts without the user's modules and finds them where this process does
        path = {"PYTHONPATH": os.pathsep.join(p or "." for p in sys.path)}
        environment = dict(os.environ) | ONE_THREAD | path
        # Ctrl-C goes to all processes of a terminal; workers are stopped by this one
        held = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self.process = subprocess.Popen(
                command, pass_fds=ends, stdin=subprocess.DEVNULL, env=environment
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
        there.close()
        self.pipe: Connection[Any, Any] = here
        self.run: Run | None = None
        self.pipe.send((out, memory_gb, logger.getEffectiveLevel(), settled()))

    def execute(
        self, run: Run, tables: int, resume: bool, report: Callable[[RunProgress], None]
    ) -> str | RayfedError:
        """Let it execute a run, and return the outcome; `tables` is their place in the file.

        Raises
        ------
        EOFError, OSError
            If the process dies.
        """
        self.run = run
        self.pipe.send((run, tables, resume))
        while True:
            received = self.pipe.recv()
            if isinstance(received, RunProgress):
                report(received)
            elif isinstance(received, LogLine):
                received.write()
            else:
                self.run = None
                outcome: str | RayfedError = received
                return outcome


class WorkersStudy(Backend):
    """Runs the runs of a study in worker processes, each worker in the hands of one thread.

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
        self.file = tempfile.TemporaryFile()  # noqa: SIM115 (until `close`)
        self.shared: dict[str, Any] | None = None
        self.place = 0  # of the shared tables in the file
        self.workers: list[Worker] = []
        self.idle: list[Worker] = []
        self.progress: dict[str, RunProgress] = {}
        self.stopping = False

    def execute(
        self, runs: Sequence[Run], tables: dict[str, Any], resume: bool, report: Report
    ) -> dict[str, str]:
        """Run all runs, several at a time, and return the outcome of each by folder."""
        while len(self.workers) < min(len(runs), self.most):
            self.idle.append(self._start())  # they import while tables are written
        self._share(tables)
        outcome: dict[str, str] = {}
        with ThreadPoolExecutor(max(1, len(self.workers))) as threads:
            waiting = {threads.submit(self._execute, run, resume): run for run in runs}
            try:
                while waiting:
                    done, _ = wait(waiting, _LOOK_S, FIRST_COMPLETED)
                    outcome |= {waiting.pop(future).folder: future.result() for future in done}
                    report(dict(self.progress), outcome)
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                self._stop()
                raise
        report({}, outcome)
        return outcome

    def _start(self) -> Worker:
        worker = Worker(self.out, self.file.fileno(), self.memory_gb)
        self.workers.append(worker)
        if self.stopping:  # since the last look, so that `_stop` may have missed it
            worker.process.send_signal(_STOP)
        return worker

    def _share(self, tables: dict[str, Any]) -> None:
        """Replace tables by shared ones; those of later trials may be others."""
        if self.shared is None or any(self.shared.get(k) is not v for k, v in tables.items()):
            self.place = self.file.seek(0, os.SEEK_END)
            write_tables(self.file, tables)
            tables.update(read_tables(self.file.fileno(), self.place))
            self.shared = dict(tables)

    def _execute(self, run: Run, resume: bool) -> str:
        """Execute a run in an idle worker, and in another one if that dies."""
        worker = self.idle.pop()
        report = partial(self.progress.__setitem__, run.folder)
        outcome: str | RayfedError = STOPPED
        for tries in range(_TRIES):
            try:
                outcome = worker.execute(run, self.place, resume or tries > 0, report)
                break
            except (EOFError, OSError):
                self.workers.remove(worker)
                status = worker.process.wait()
                outcome = RayfedError(f"its worker died {_TRIES} times, last with status {status}")
                if self.stopping:
                    return STOPPED
                worker = self._start()
        self.idle.append(worker)
        self.progress.pop(run.folder, None)
        if isinstance(outcome, RayfedError):
            return record_failure(run, self.out, outcome, str(outcome))
        return outcome

    def _stop(self) -> None:
        """Let every run write a checkpoint and end."""
        self.stopping = True
        for worker in list(self.workers):
            worker.process.send_signal(_STOP)

    def close(self) -> None:
        """End the workers."""
        for worker in self.workers:  # all end at once
            worker.process.terminate()
        while self.workers:
            worker = self.workers.pop()
            worker.process.wait()
            worker.pipe.close()
        self.file.close()


def serve(pipe: Connection[Any, Any], file: int, stopping: Event) -> None:
    """Execute the runs that come, until the other end is closed, which is an EOFError.

    Parameters
    ----------
    pipe : Connection
    file : int
        Of the tables.
    stopping : Event
        Set once runs are to write a checkpoint and end.
    """
    out, memory_gb, lowest, homes = pipe.recv()
    settle(homes)

    def send(message: RunProgress | LogLine | RayfedError | str) -> None:
        with suppress(BrokenPipeError):  # `recv` raises an error then
            pipe.send(message)

    forward(lowest, send)
    mapped, tables = -1, dict[str, Any]()
    while True:
        try:
            run, place, resume = pipe.recv()
        except (AttributeError, ImportError) as error:  # of a user's plug-in
            text = f"a worker does not find a plug-in ({error}); put its class into a module"
            send(RayfedError(text))
            continue
        if place != mapped:
            mapped, tables = place, read_tables(file, place)
        try:
            with writing(out / run.folder):
                driver = Driver(run, out, SerialExecutor(tables, memory_gb=memory_gb))
                outcome = _execute(driver, resume, stopping, send)
        except OSError as error:  # of the run's folder
            outcome = record_failure(run, out, error, traceback.format_exc())
        send(outcome)


def _execute(
    driver: Driver, resume: bool, stopping: Event, send: Callable[[RunProgress], None]
) -> str:
    """Execute a run, and return its outcome; see `Driver.execute`."""
    reported = time.monotonic()

    def report(progress: RunProgress) -> None:
        nonlocal reported
        if stopping.is_set():
            driver.stop()
        elif time.monotonic() - reported > _EVERY_S:
            reported = time.monotonic()
            send(progress)

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


def read_tables(file: int, place: int = 0) -> dict[str, Any]:
    """Return the tables at a place of an open file; their arrays are mapped and read-only."""
    held = mmap.mmap(file, 0, access=mmap.ACCESS_READ)
    held.seek(place)
    head, sizes = pickle.load(held)  # not of the file, whose position all processes share
    place = held.tell()
    mapping, buffers = memoryview(held), []
    for size in sizes:
        place += -place % _ALIGN
        buffers.append(mapping[place : place + size])
        place += size
    tables: dict[str, Any] = pickle.loads(head, buffers=buffers)
    return tables


def main() -> None:
    """Serve the runs of a pipe; see the module for the arguments.

    A worker whose parent was killed while it started would compute a run anew that another process
    has resumed meanwhile.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that deals out runs stops them
    stopping = Event()
    signal.signal(_STOP, lambda *_: stopping.set())
    end_with_parent(int(sys.argv[3]))
    own_process()
    with suppress(EOFError, ConnectionResetError):
        serve(Connection(int(sys.argv[1])), int(sys.argv[2]), stopping)


if __name__ == "__main__":
    main()
