"""The runs of a study one after the other in this process, without Ray."""

from __future__ import annotations

import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from rayfed.core.threads import one_thread
from rayfed.engine.run import Run
from rayfed.executors.base import Executor
from rayfed.executors.serial import SerialExecutor
from rayfed.runs.backend import Backend, Report, RunProgress
from rayfed.runs.driver import Driver
from rayfed.runs.files.run_json import record_failure


class SerialStudy(Backend):
    """Runs the runs of a study one after the other.

    Parameters
    ----------
    out : Path
        The study's result folder.
    executor : callable
        Makes the executor of a run from the tables of the study.
    """

    def __init__(
        self,
        out: Path,
        executor: Callable[[Mapping[str, Any]], Executor] = SerialExecutor,
    ) -> None:
        self.out, self.executor = out, executor

    def execute(
        self, runs: Sequence[Run], tables: dict[str, Any], resume: bool, report: Report
    ) -> dict[str, str]:
        """Run all runs and return the outcome of each by folder."""
        outcome: dict[str, str] = {}
        for run in runs:
            try:
                driver = Driver(run, self.out, self.executor(tables))
            except OSError as error:
                trace = traceback.format_exc()
                outcome[run.folder] = record_failure(run, self.out, error, trace)
                continue

            def report_run(progress: RunProgress, folder: str = run.folder) -> None:
                report({folder: progress}, outcome)

            with one_thread(), interruptible(driver):
                outcome[run.folder] = driver.execute(resume, report_run)
            if driver.stopping:
                raise KeyboardInterrupt
        report({}, outcome)
        return outcome


@contextmanager
def interruptible(driver: Driver) -> Iterator[None]:
    """Turn the first Ctrl-C into a checkpoint after the current round; a second one interrupts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def first(number: int, frame: FrameType | None) -> None:
        driver.stop()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
