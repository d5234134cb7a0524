"""Algorithms by case: the table, the value against the level, and ranks over many cases."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import pandas as pd
import plotly.graph_objects as go

from rayfed.report.figures import marks
from rayfed.report.figures.labels import plain
from rayfed.report.figures.marks import NothingToDraw, over_levels
from rayfed.report.figures.palette import LIGHT, LineStyle
from rayfed.report.figures.style import algorithm_styles, canvas
from rayfed.report.html import environment, keep_units
from rayfed.report.panels.answers import of_ranks, verdict
from rayfed.report.panels.base import Panel, Section, figure_json
from rayfed.report.pivot import Ranks, pivot, ranks, standings
from rayfed.report.read import sweeps
from rayfed.report.read.results import Results
from rayfed.report.read.series import first_column, y_columns

HEIGHT = 280
_ROW = 26  # pixels


def levels(results: Results, column: str | None = None) -> go.Figure:
    """Draw the last values of all algorithms against the number that tells the cases apart.

    Parameters
    ----------
    results : Results
        A result folder with cases.
    column : str, optional
        A column of the rounds. If None: the one that comes first on the page.

    Returns
    -------
    Figure
        A line an algorithm, means over seeds, with bars of one standard deviation.

    Raises
    ------
    ValueError
        If the cases are no numbers of one key, or fewer than three.
    """
    column = column or first_column(results)
    key, level = level_of(results)
    rows = [
        {"series": name, "level": level[case], "value": end.mean, "sd": end.sd}
        for case, one in standings(results, column).items()
        for name, end in one.ends.items()
    ]
    styles = _styles(results)
    points = pd.DataFrame(rows, columns=["series", "level", "value", "sd"])
    return over_levels(points, styles, key, f"final {results.column(column).label}", HEIGHT)


def level_of(results: Results) -> tuple[str, dict[str, float]]:
    """Return the number that tells cases apart: its title, and its value in each case.

    Raises
    ------
    NothingToDraw
        If it is no number, or more than one.
    """
    swept = sweeps.find(results) if results.cases else None
    if swept is not None and len(swept.keys) == 1:
        names, values = swept.points["name"], swept.points[swept.keys[0]]
        level = {results.case_of[n]: float(v) for n, v in zip(names, values, strict=True)}
        if len(set(level.values())) == len(results.cases):
            return swept.titles[0], level
    raise NothingToDraw("the cases of this study are not told apart by one number")


def critical_difference(results: Results, column: str | None = None) -> go.Figure:
    """Draw the mean ranks of algorithms over cases, and which are level; see `pivot.Ranks`.

    Parameters
    ----------
    results : Results
        A result folder with five cases or more.
    column : str, optional
        A column of the rounds. If None: the one that comes first on the page.

    Returns
    -------
    Figure
        A dot an algorithm at its mean rank; bars join those that differ by less than the critical
        difference.

    Raises
    ------
    ValueError
        If there are fewer than five cases or three algorithms.
    """
    found = ranks(results, column or first_column(results))
    if found is None:
        raise NothingToDraw("ranks need five cases and three algorithms that all of them have")
    return _ranks_figure(results, found)


def _ranks_figure(results: Results, found: Ranks) -> go.Figure:
    styles, names = _styles(results), [plain(name) for name in found.means]
    figure = canvas(96 + _ROW * (len(names) + len(found.groups)), hovermode="closest")
    for place, group in enumerate(found.groups, len(names)):
        ends = [found.means[group[0]], found.means[group[-1]]]
        heavy = {"color": LIGHT["muted"], "width": 5}
        marks.lines(figure, "level", ends, [place] * 2, heavy, f"level: {', '.join(group)}")
    for place, (name, rank) in enumerate(found.means.items()):
        dot = {"size": 10, "color": styles[name].light}
        marks.dots(figure, "rank", [rank], [place], dot, f"{plain(name)}: %{{x:.3~g}}", of=name)
    title = f"mean rank over {found.cases} cases (1 is best)"
    figure.update_xaxes(title_text=title, range=[0.8, len(names) + 0.2], dtick=1, nticks=None)
    texts = [*names, *[""] * len(found.groups)]
    return figure.update_yaxes(
        tickvals=list(range(len(texts))), ticktext=texts, range=[len(texts) - 0.4, -0.6],
        automargin=True, showgrid=False,
    )  # fmt: skip


def _styles(results: Results) -> dict[str, LineStyle]:
    """Return how each algorithm is drawn, by its name in the table."""
    inside = [(part.families, algorithm_styles(part)) for part in results.cases.values()]
    return {of.get(name, name): style for of, styles in inside for name, style in styles.items()}


class CasesPanel(Panel):
    """The table of algorithms by cases right below the answer, with what it shows as figures."""

    name: ClassVar[str] = "cases"
    section = Section.ANSWER
    rank = 10
    draws = (levels, critical_difference)

    @property
    def applies(self) -> bool:
        """Whether the study compares algorithms in cases."""
        return bool(self.source.cases)

    @cached_property
    def payload(self) -> dict[str, Any]:
        """For every column what is said of it, its table as HTML, and the figures."""
        return {column: self._of(column) for column in self._columns}

    @property
    def _columns(self) -> list[str]:
        return list(dict.fromkeys([self.source.y, *y_columns(self.results)]))

    def _of(self, column: str) -> dict[str, Any]:
        found = ranks(self.results, column)
        macros = environment().get_template("macros.html").module
        rows = pivot(self.results, column)
        return {
            "title": keep_units(verdict(self.results, column)),
            "table": str(macros.pivot(rows, self.source, self._drawn)),  # type: ignore[attr-defined]
            "levels": self._levels(column),
            "ranks": None if found is None else figure_json(_ranks_figure(self.results, found)),
            "ranked": None if found is None else keep_units(of_ranks(found)),
        }

    @cached_property
    def _drawn(self) -> dict[str, str]:
        """A name of each algorithm in the table, whose line is shown beside it."""
        parts = [source.results for source in self.source.parts]
        return {part.families.get(name, name): name for part in parts for name in part.names}

    def _levels(self, column: str) -> dict[str, Any] | None:
        try:
            return figure_json(levels(self.results, column))
        except NothingToDraw:
            return None

    @property
    def shown(self) -> dict[str, Any]:
        """What the page shows before the reader has pressed anything."""
        shown: dict[str, Any] = self.payload[self.source.y]
        return shown

    @property
    def choices(self) -> list[tuple[str, str]]:
        """The columns of which one end is best, with their titles."""
        known = {c: self.results.column(c) for c in self._columns}
        return [(c, column.title) for c, column in known.items() if column.better is not None]

    @property
    def noise(self) -> str:
        """What is bold."""
        if self.source.seeds < 2:
            return "Bold is the best of a case; with one seed it is not known what is noise."
        return (
            f"Mean and standard deviation over {self.source.seeds} seeds of the last value. Bold "
            "is the best of a case where it leads every other by more than both deviations "
            "together; where none is bold, the best are within noise."
        )
