"""Costs to the target, and final values: the table, and seed by seed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property, partial
from typing import Any, ClassVar

import plotly.graph_objects as go

from rayfed.core.arrays import Floats
from rayfed.core.columns import Column
from rayfed.report.figures import charts, marks
from rayfed.report.figures.labels import plain
from rayfed.report.figures.style import algorithm_styles, canvas, column_axis
from rayfed.report.panels.base import MOST_CASES, FigurePanel, Panel, Section, figure_json
from rayfed.report.panels.phrases import goal
from rayfed.report.read import units
from rayfed.report.read.curves import first_column, gap, history, last_values
from rayfed.report.read.results import Results
from rayfed.report.tables import TextColumn, text_columns
from rayfed.report.verdicts import critical

MOST_ROWS = 12
"""Rows of a case that are shown; of more, the best so many come first and others are folded."""
MOST = 30
"""Rows of a figure; of more algorithms the worst are left out."""
_ROW, _MARGINS = 26, 64  # pixels


class CostsPanel(Panel):
    """A sortable row for each algorithm; the script keeps it at the reader's target."""

    name: ClassVar[str] = "costs"
    section = Section.RESULTS
    rank = 20

    @cached_property
    def columns(self) -> list[TextColumn]:
        """The columns, the algorithms' names first."""
        return text_columns(self.results, self.source.summary)

    @cached_property
    def payload(self) -> dict[str, Any]:
        """For each case, or the whole, the critical t of its rivals; None if seeds are missing."""
        return {"critical": [self._critical(part.results) for part in self.source.parts]}

    def _critical(self, results: Results) -> list[dict[str, float]] | None:
        ranked = [n for n in results.rivals if n not in results.failed]
        seeds = [len(results.usable(name)) for name in ranked]
        known = len(set(seeds)) == 1 and seeds[0] > 1
        return critical(len(seeds), seeds[0]) if known else None

    @property
    def groups(self) -> Iterator[tuple[str, list[int]]]:
        """The places of the rows of each case with its heading, empty where there are no cases."""
        names, case_of = self.columns[0].texts, self.results.case_of
        for case, part in (self.source.cases or {"": self.source}).items():
            column, aim = self.results.column(part.y), ""
            if part.target is not None:
                aim = f", target: {goal(column, part.target)}"
            places = [k for k in self._order if case_of.get(names[k], "") == case]
            yield (f"{case}{aim}" if case else ""), places

    @cached_property
    def _order(self) -> list[int]:
        """The places of the rows; of many first those that held the target, or ended best."""
        names, y = self.columns[0].texts, self.source.y
        if not self._many:
            return [*range(len(names))]
        sign = -1.0 if self.results.column(y).better == "higher" else 1.0
        frame = self.source.summary
        frame = frame.assign(
            failed=frame["name"].isin(self.results.failed),
            end=sign * frame.get(f"{y}_mean", math.nan),
        )
        order = frame.sort_values(["failed", "rounds_to_keep", "end"])["name"]
        return [names.index(name) for name in order]

    @property
    def folded(self) -> bool:
        """Whether there are so many rows or cases that only the first are shown at first."""
        return self._many or len(self.source.cases) > MOST_CASES

    @property
    def _many(self) -> bool:
        """Whether a case, or the whole, has many rows."""
        return any(len(part.results.names) > MOST_ROWS for part in self.source.parts)

    @property
    def within(self) -> str:
        """The precision of costs where not every round is evaluated, else empty."""
        runs, y = self.results.runs_found, self.source.y
        rounds, seconds = (
            max(run.cached(("gap", clock, y), partial(gap, history(run), clock, y)) for run in runs)
            for clock in ("round", "time_s")
        )
        if rounds <= 1:
            return ""
        # The updates of asynchronous algorithms are no rounds of others.
        return units.duration(seconds) if self.results.asynchronous else f"{rounds:,.0f} rounds"


def finals(results: Results, column: str | None = None) -> go.Figure:
    """Draw the last value of every run: a row for each algorithm, a dot for each seed.

    Parameters
    ----------
    results : Results
        A result folder.
    column : str, optional
        A column of the rounds. If None: the one that comes first on the page.

    Returns
    -------
    Figure
        The upright stroke of each row is its mean. Of more than 30 algorithms the best are drawn.

    Raises
    ------
    ValueError
        If no run has a value.
    """
    column = column or first_column(results)
    every = final_values(results, column)
    if not every:
        raise ValueError(f"no run has a last value of {column}")
    values = _best(results.column(column), every)
    note = f"The best {MOST} of {len(every)} algorithms are drawn." if len(every) > MOST else ""
    height = _MARGINS + _ROW * len(values)
    figure = canvas(height, hovermode="closest", meta={"note": note})
    charts.name_rows(figure, [*values]).update_yaxes(showgrid=False)
    styles = algorithm_styles(results)
    stroke = {"symbol": "line-ns-open", "size": 16, "opacity": 1, "line": {"width": 2.5}}
    for row, (name, ends) in enumerate(values.items()):
        dot = {"size": 9, "opacity": 0.6, "color": styles[name].light, "line": marks.NO_LINE}
        shown = (("seeds", ends.tolist(), dot), ("mean", [float(ends.mean())], dot | stroke))
        for part, x, marker in shown:
            hover = f"%{{x:.4~g}}<extra>{plain(name)}, {part}</extra>"
            marks.dots(figure, part, x, [row] * len(x), marker, of=name, hovertemplate=hover)
    axis = column_axis(results.column(column), [*values.values()], "final ")
    return figure.update_xaxes(axis)


def final_values(results: Results, column: str) -> dict[str, Floats]:
    """Return the last values of the seeds of each algorithm that has any, (n,) arrays.

    Algorithms of which every run failed are left out.

    Parameters
    ----------
    results : Results
        A result folder.
    column : str
        A column of the rounds.
    """
    found = {}
    for name in results.names:
        values = last_values([history(run) for run in results.usable(name)], column)
        if len(values) and name not in results.failed:
            found[name] = values
    return found


def _best(column: Column, every: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return those of the `MOST` best means, in their order."""
    sign = -1.0 if column.better == "higher" else 1.0
    best = sorted(every, key=lambda name: sign * float(every[name].mean()))[:MOST]
    return {name: values for name, values in every.items() if name in best}


class FinalsPanel(FigurePanel):
    """A dot for the last value of each run, of the column that is shown above."""

    name: ClassVar[str] = "finals"
    section = Section.RESULTS
    rank = 30
    draws = (finals,)
    heading = "Final values"
    of_column = True
    how = "Dots show the last value of each seed, strokes the mean over seeds."

    @property
    def applies(self) -> bool:
        """Whether any algorithm has several seeds, and values."""
        return self.source.seeds > 1 and bool(final_values(self.results, self.source.y))

    @cached_property
    def content(self) -> dict[str, Any]:
        """The figure of the first column, and of each other one that has values."""
        others = [c for c in self.source.drawn if c != self.source.y]
        known = [c for c in others if final_values(self.results, c)]
        return super().content | {"columns": {c: self._of(c) for c in known}}

    def _of(self, column: str) -> dict[str, Any]:
        return {"title": self.title(), "figure": figure_json(finals(self.results, column))}
