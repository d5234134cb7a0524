"""The table: what it took to reach the target, and the final values."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from rayfed.report.panels.base import Panel, Section
from rayfed.report.panels.phrases import goal
from rayfed.report.read import units
from rayfed.report.read.series import gap
from rayfed.report.tables import TextColumn, text_columns

MOST_ROWS = 12
"""Rows that are shown; of more, the best so many come first and all others are folded."""


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
    def groups(self) -> Iterator[tuple[str, list[tuple[str, list[Cell]]]]]:
        """The rows of each case with its heading, which is empty where there are no cases."""
        case_of = self.results.case_of
        for case, part in (self.source.cases or {"": self.source}).items():
            rows = [row for row in self._rows if case_of.get(row[0], "") == case]
            column, aim = self.results.column(part.y), ""
            if part.target is not None:
                aim = f", target: {goal(column, part.target)}"
            yield (f"{case}{aim}" if case else ""), rows

    @cached_property
    def _rows(self) -> list[tuple[str, list[Cell]]]:
        """The name of each algorithm with its cells; where they are many, the best first."""
        cells = [
            [Cell(c.texts[place], c.values[place], c.best[place]) for c in self.columns]
            for place in range(len(self.columns[0].texts))
        ]
        rows = [(row[0].text, row) for row in cells]
        return sorted(rows, key=self._place) if self.folded else rows

    def _place(self, row: tuple[str, list[Cell]]) -> tuple[bool, float, float]:
        """Return what many rows are sorted by: those that kept the target, then the last value."""
        name, y = row[0], self.source.y
        held = self._reached[name]
        sign = -1.0 if self.results.column(y).better == "higher" else 1.0
        kept, end = (
            math.inf if math.isnan(value) else value
            for value in (held["rounds_to_keep"], sign * held.get(f"{y}_mean", math.nan))
        )
        return name in self.results.failed, kept, end

    @cached_property
    def _reached(self) -> dict[str, dict[str, Any]]:
        """The row of the summary of each algorithm."""
        rows = self.source.summary.to_dict("records")
        return {row["name"]: {str(key): value for key, value in row.items()} for row in rows}

    @property
    def folded(self) -> bool:
        """Whether there are so many rows that only the best are shown at first."""
        return len(self.results.names) > MOST_ROWS and not self.source.cases

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
        where = ", by case" if self.source.cases else ""
        return (to_target if self.has_target else "Final values") + where + over
