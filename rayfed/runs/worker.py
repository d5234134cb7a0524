"""A worker process: ``python -m rayfed.runs.worker FD``, started by `rayfed.runs.workers`."""

from __future__ import annotations

import signal
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from rayfed.core.errors import RayfedError
from rayfed.core.own import settle
from rayfed.core.threads import own_process
from rayfed.engine.run import Run
from rayfed.executors.orphan import end_with_parent
from rayfed.executors.serial import SerialExecutor
from rayfed.runs.backend import STOP, RunProgress
from rayfed.runs.driver import Driver, Interrupted
from rayfed.runs.files.folder import writing
from rayfed.runs.files.run_json import record_failure
from rayfed.runs.logger import LogLine, forward
from rayfed.runs.tables import read_tables

_EVERY_S = 0.2  # a progress is told
_LISTEN_S = 0.02
_mapped = lru_cache(maxsize=1)(read_tables)


def serve(pipe: Connection[Any, Any]) -> None:
    """Execute the runs that come, until nobody sends any more, which is an EOFError."""
    out, memory_gb, level, homes = pipe.recv()
    settle(homes)

    def send(line: LogLine) -> None:
        with suppress(BrokenPipeError):
            pipe.send(line)

    forward(level, send)
    while True:
        try:
            dealt = pipe.recv()
        except (AttributeError, ImportError) as error:  # of a user's plug-in
            text = f"a worker does not find a plug-in ({error}); put its class into a module"
            pipe.send(RayfedError(text))
            continue
        if dealt == STOP:  # said while a run ended, or to one that has ended since
            return
        run, tables, resume = dealt
        try:
            said = _execute(pipe, run, Path(out), _mapped(Path(tables)), resume, memory_gb)
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
    """Execute a run, and return "finished", "failed" or "interrupted"."""
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
        try:
            return driver.execute(resume, report)
        except Interrupted:
            return "interrupted"


def main() -> None:
    """Serve on the connection whose number is the argument."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that deals says when to stop
    end_with_parent()
    own_process()
    with suppress(EOFError):
        serve(Connection(int(sys.argv[1])))


if __name__ == "__main__":
    main()
