"""Backends, which run the runs of a study, and displays of their progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeAlias

from rayfed.engine.run import Run


@dataclass(frozen=True)
class RunProgress:
    """How far a run is: rounds done and to do, virtual seconds, last loss."""

    round: int
    rounds: int
    time_s: float
    loss: float


Report: TypeAlias = Callable[[Mapping[str, RunProgress], Mapping[str, str]], None]
"""Gets the progress of the runs that go on and the outcomes of those that ended, by folder."""


class Backend:
    """Runs all runs of a study; here without processes that would have to start or end."""

    def wait(self, report: Callable[[int, int], None]) -> None:
        """Wait until all client actors have started; calls ``report(started, total)``."""

    def listens(self) -> str | None:
        """Return who listens on the network during the runs, in one line; None if nobody does."""
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
    """Displays the progress of a study; this one shows nothing, others say what they show."""

    def note(self, line: str) -> None:
        """Show a line that stays."""

    def actors(self, started: int, total: int) -> None:
        """Show how many client actors have started."""

    def runs(self, progress: Mapping[str, RunProgress], outcome: Mapping[str, str]) -> None:
        """Show how far the runs are."""

    def best(self, text: str) -> None:
        """Show the best trials of a sweep so far."""

    def page(self, done: int, total: int, text: str) -> None:
        """Show how far the page is, and what is done for it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass
