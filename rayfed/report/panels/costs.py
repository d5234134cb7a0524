"""The table: what it took to reach the target, and the final values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from rayfed.report.panels.base import Panel, Section
from rayfed.report.read import units
from rayfed.report.read.series import gap
from rayfed.report.tables import TextColumn, text_columns


@dataclass(frozen=True)
class Cell:
    """One cell of the table.

    Parameters
    ----------
    text : str
        What it shows.
    value : float
        What its column is sorted by.
    best : bool
        Whether it is the best of its column.
    """

    text: str
    value: float
    best: bool

    @property
    def spread(self) -> tuple[str, str] | None:
        """The mean and the deviation of "mean ± deviation", which may stand on two lines."""
        mean, sign, deviation = self.text.partition(" ± ")
        return (mean, deviation) if sign else None


class CostsPanel(Panel):
    """A sortable row for each algorithm; the script keeps it at the reader's target."""

    name: ClassVar[str] = "costs"
    section = Section.RESULTS
    rank = 20

    @cached_property
    def columns(self) -> list[TextColumn]:
        """The columns, the algorithms' names first."""
        return text_columns(self.results, self.source.summary)

    @property
    def rows(self) -> Iterator[tuple[str, list[Cell]]]:
        """The name of each algorithm with its cells."""
        for place, name in enumerate(self.columns[0].texts):
            yield (
                name,
                [Cell(c.texts[place], c.values[place], c.best[place]) for c in self.columns],
            )

    @property
    def has_target(self) -> bool:
        """Whether the table tells what it took to reach a target."""
        return any(column.clock for column in self.columns)

    @property
    def within(self) -> str:
        """How exactly costs are known, where not every round is evaluated, else empty."""
        runs, y = [run.rounds for run in self.results.runs_found], self.source.y
        rounds, seconds = (
            max((gap(frame, clock, y) for frame in runs), default=0.0)
            for clock in ("round", "time_s")
        )
        if rounds <= 1:
            return ""
        # The updates of asynchronous algorithms are no rounds of others.
        return units.duration(seconds) if self.results.asynchronous else f"{rounds:,.0f} rounds"

    @property
    def title(self) -> str:
        """What the table tells."""
        to_target = "What it took to reach the target, and the final values"
        seeds = self.source.seeds
        over = f", mean and standard deviation over {seeds} seeds" if seeds > 1 else ""
        return (to_target if self.has_target else "Final values") + over
