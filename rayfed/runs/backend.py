"""Backends, which run the runs of a study, and displays of their progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeAlias

from rayfed.engine.run import Run


@dataclass(frozen=True)
class RunProgress:
    """Progress of a run: rounds done and to do, virtual seconds, last loss, round of its start."""

    round: int
    rounds: int
    time_s: float
    loss: float
    first: int = 0


Report: TypeAlias = Callable[[Mapping[str, RunProgress], Mapping[str, str]], None]
"""Gets the progress of the runs that go on and the outcomes of those that ended, by folder."""


class Backend:
    """Runs all runs of a study; here without processes that would have to start or end."""

    def wait(self, report: Callable[[int, int], None]) -> None:
        """Wait until all client actors have started; calls ``report(started, total)``."""

    def listens(self) -> str | None:
        """Return the addresses that listen during the runs, in one line; None without any."""
        return None

    def execute(
        self, runs: Sequence[Run], tables: dict[str, Any], resume: bool, report: Report
    ) -> dict[str, str]:
        """Run all runs and return "finished" or "failed" for each by folder.

        Where tables are shared with other processes, the shared ones take the places of those
        given, so that rows are in memory once. They may be read until `close`.
        """
        raise NotImplementedError

    def close(self) -> None:
        """End the processes that were started."""


class ProgressDisplay:
    """Display of the progress of a study; this one shows nothing."""

    def note(self, line: str) -> None:
        """Show a line that stays."""

    def actors(self, started: int, total: int) -> None:
        """Show the number of client actors that have started."""

    def runs(self, progress: Mapping[str, RunProgress], outcome: Mapping[str, str]) -> None:
        """Show the progress of the runs."""

    def best(self, text: str) -> None:
        """Show the best trials of a sweep so far."""

    def page(self, done: int, total: int, text: str) -> None:
        """Show the progress of the page, and the current step."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass
