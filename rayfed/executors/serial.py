"""Everything in this process: one host with all clients, no Ray."""

from __future__ import annotations

import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from threadpoolctl import threadpool_limits

from rayfed.driver import Driver, Interrupted, give_up
from rayfed.executors.base import Gathered, Progress, Report, gather
from rayfed.host import Host, Request, Setup
from rayfed.problems.base import Array
from rayfed.runs import Run


class SerialExecutor:
    """An executor with one host in the process itself.

    Parameters
    ----------
    tables : mapping of str to Table
        The tables of the study.
    data : mapping of str to str
        For each view of the run the name of its table.
    """

    def __init__(self, tables: Mapping[str, Any], data: Mapping[str, str]) -> None:
        self.host = Host([(0, 1)])
        self.tables, self.data = tables, data

    def open(self, key: str, setup: Setup, rows: Mapping[str, Array] | None = None) -> None:
        """Begin a run, or begin it again from the client state of a checkpoint."""
        tables = [self.tables.get(self.data.get(name, "")) for name in setup.views]
        self.host.open(key, setup.with_tables(tables), rows)

    def exchange(self, key: str, request: Request, send: Mapping[str, Array]) -> Gathered:
        """Run the client halves of an Ask."""
        return gather(request, [(None, self.host.exchange(key, request, send))])

    def snapshot(self, key: str) -> dict[str, Array]:
        """Return client state that changed since the last snapshot."""
        return self.host.snapshot(key)

    def close(self, key: str) -> None:
        """Forget a run."""
        self.host.close(key)


class SerialStudy:
    """Runs the runs of a study one after the other.

    Parameters
    ----------
    out : Path
        The study's result folder.
    """

    def __init__(self, out: Path) -> None:
        self.out = out

    def wait(self, report: Callable[[int, int], None]) -> None:
        """Nothing has to start."""

    def execute(
        self, runs: Sequence[Run], tables: Mapping[str, Any], resume: bool, report: Report
    ) -> dict[str, str]:
        """Run all runs and return the outcome of each by folder."""
        outcome: dict[str, str] = {}
        for run in runs:
            try:
                driver = Driver(run, self.out, SerialExecutor(tables, run.data))
            except OSError as error:
                outcome[run.folder] = give_up(run, self.out, error, traceback.format_exc())
                continue

            def tell(progress: Progress, folder: str = run.folder) -> None:
                report({folder: progress}, outcome)

            with threadpool_limits(1), _interruptible(driver):
                try:
                    outcome[run.folder] = driver.execute(resume, tell)
                except Interrupted:
                    raise KeyboardInterrupt from None
            if driver.stopping:  # Ctrl-C came in its last round
                raise KeyboardInterrupt
        report({}, outcome)
        return outcome

    def close(self) -> None:
        """Nothing has to end."""


@contextmanager
def _interruptible(driver: Driver) -> Iterator[None]:
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
