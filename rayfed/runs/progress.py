"""Progress of a study: bars in a terminal, one plain line every so often elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from importlib.util import find_spec
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from rayfed.core.errors import many
from rayfed.engine.run import ENDLESS
from rayfed.runs.backend import ProgressDisplay, RunProgress

_EVERY_S = 10.0


class Bars(ProgressDisplay):
    """A bar for the study and one for every run that goes on.

    Parameters
    ----------
    total : int
        Number of runs.
    console : Console
        A terminal.
    """

    def __init__(self, total: int, console: Console) -> None:
        self.total = total
        self.bars = Progress(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"),
            TimeRemainingColumn(elapsed_when_finished=True), console=console, transient=True,
        )  # fmt: skip
        self.study: TaskID | None = None
        self.start: TaskID | None = None
        self.sheet: TaskID | None = None
        self.lead = ""
        self.tasks: dict[str, TaskID] = {}

    def note(self, line: str) -> None:
        """Print a line above the bars."""
        _print(self.bars.console, line)

    def actors(self, started: int, total: int) -> None:
        """Show a bar until all actors have started."""
        if self.start is None:
            self.start = self.bars.add_task("client actors", total=total, text="")
        self.bars.update(self.start, completed=started, text=f"{started}/{total}")
        if started == total:
            self.bars.remove_task(self.start)

    def runs(self, progress: Mapping[str, RunProgress], outcome: Mapping[str, str]) -> None:
        """Move the bars."""
        if self.study is None:
            self.study = self.bars.add_task("[bold]study", total=self.total, text="")
        text = f"{len(outcome)}/{self.total} runs{self.lead}"
        self.bars.update(self.study, completed=_done(progress, outcome), text=text)
        for name, far in progress.items():
            if name not in self.tasks and name not in outcome:
                self.tasks[name] = self.bars.add_task(name, total=far.rounds, text="")
            if name in self.tasks:
                self.bars.update(self.tasks[name], completed=far.round, text=_text(far))
        for name in [name for name in self.tasks if name in outcome or name not in progress]:
            self.bars.remove_task(self.tasks.pop(name))

    def best(self, text: str) -> None:
        """Take the best trials of a sweep to the bar of the study."""
        self.lead = escape(f"; {text}")

    def page(self, done: int, total: int, text: str) -> None:
        """Move the bar of the page, which takes the place of the others."""
        if self.sheet is None:
            for task in self.bars.task_ids:
                self.bars.remove_task(task)
            self.sheet = self.bars.add_task("page", text="")
        self.bars.update(self.sheet, completed=done, total=total, text=text)

    def __enter__(self) -> Self:
        self.bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.bars.stop()


class LogLines(ProgressDisplay):
    """One plain line every ten seconds, for logs."""

    def __init__(self, total: int, console: Console) -> None:
        self.total, self.console = total, console
        self.paging = False
        self.began = self.last = time.monotonic()
        self.lead = ""
        self.earlier: dict[str, float] = {}

    def note(self, line: str) -> None:
        """Print a line."""
        _print(self.console, line)

    def actors(self, started: int, total: int) -> None:
        """Print when all have started."""
        if started == total:
            taken = time.monotonic() - self.began
            self.note(f"{many(total, 'client actor')} started in {taken:.1f} s")

    def runs(self, progress: Mapping[str, RunProgress], outcome: Mapping[str, str]) -> None:
        """Print the progress of the study, if the last line is long ago.

        The time left is estimated from the rounds since the start, without those of checkpoints.
        """
        self.earlier |= {name: far.first / max(far.rounds, 1) for name, far in progress.items()}
        if time.monotonic() - self.last < _EVERY_S:
            return
        self.last = time.monotonic()
        done = _done(progress, outcome)
        spent = time.monotonic() - self.began
        new = done - sum(self.earlier.values())
        known = new > 0 and all(far.rounds < ENDLESS for far in progress.values())
        left = f", about {spent * (self.total - done) / new:.0f} s left" if known else ""
        running = "; ".join(f"{name}: {_text(far)}" for name, far in progress.items())
        self.note(f"{len(outcome)}/{self.total} runs{left}; {running}{self.lead}")

    def best(self, text: str) -> None:
        """Take the best trials of a sweep into the next line."""
        self.lead = f"; {text}"

    def page(self, done: int, total: int, text: str) -> None:
        """Print the current step of the page, if it takes long."""
        if not self.paging:
            self.paging, self.last = True, time.monotonic()
        if time.monotonic() - self.last >= _EVERY_S:
            self.last = time.monotonic()
            self.note(f"page: {text}, {done}/{total}")


def watch(total: int, console: Console, *, bars: bool = True) -> ProgressDisplay:
    """Return bars in a terminal, if they are wanted, and lines elsewhere."""
    return Bars(total, console) if console.is_terminal and bars else LogLines(total, console)


def display(total: int) -> ProgressDisplay:
    """Return bars in a terminal or a notebook, lines in a notebook that cannot show bars."""
    console = Console(stderr=True, emoji=False)
    if not (console.is_terminal or console.is_jupyter):
        return ProgressDisplay()
    if console.is_jupyter and find_spec("ipywidgets") is None:
        return LogLines(total, console)
    return Bars(total, console)


def _done(progress: Mapping[str, RunProgress], outcome: Mapping[str, str]) -> float:
    """Return the number of runs done, with fractions of those in progress."""
    parts = (
        far.round / max(far.rounds, 1) for name, far in progress.items() if name not in outcome
    )
    return len(outcome) + sum(parts)


def _text(far: RunProgress) -> str:
    loss = "" if math.isnan(far.loss) else f", loss {far.loss:.4g}"
    of = f"/{far.rounds}" if far.rounds < ENDLESS else ""
    return f"round {far.round}{of}, {far.time_s:.4g} s simulated{loss}"


def _print(console: Console, text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True, markup=False)
