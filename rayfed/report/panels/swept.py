"""Last values over varied settings: one or two swept numbers, and cases."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.core.arrays import Floats
from rayfed.core.errors import unknown
from rayfed.report.figures import marks
from rayfed.report.figures.labels import plain
from rayfed.report.figures.marks import MOST_TICKS, NothingToDraw, over_levels, powered
from rayfed.report.figures.palette import LIGHT, LineStyle
from rayfed.report.figures.style import (
    FONT_SIZE,
    algorithm_styles,
    canvas,
    colorbar,
    end_title,
    fade,
    fitted,
    powers,
    spans_decades,
)
from rayfed.report.html import environment, keep_units
from rayfed.report.panels.answers import of_ranks
from rayfed.report.panels.base import Draw, Panel, Section, figure_json
from rayfed.report.pivot import pivot, ranks, standings
from rayfed.report.read import sweeps, units
from rayfed.report.read.curves import first_column, stopped_at
from rayfed.report.read.results import Results
from rayfed.report.read.sweeps import SweptPoints

HEIGHT = 360
_BESIDE_TABLE = 280
_CELL, _ROW = 44, 26  # pixels of a row of cells, and of dots
SENSITIVITY = "What each key does while the other stays at the best: a dot for each of its values."


def sweep_line(results: Results, sweep: SweptPoints, column: str) -> go.Figure:
    """Draw the last values of all algorithms over the one key that was swept.

    Parameters
    ----------
    results : Results
        A result folder.
    sweep : SweptPoints
        What `sweeps.find` returned; it must have one key.
    column : str
        A column of the rounds.

    Returns
    -------
    Figure
        One line an algorithm.
    """
    (key,), (title,) = sweep.keys, sweep.titles
    rows = sweep.values(results, column).rename(columns={key: "level"}).assign(sd=np.nan)
    styles = series_styles(results, sweep)
    return over_levels(rows, styles, title, end_title(results, column), HEIGHT)


def sweep_map(
    results: Results, sweep: SweptPoints, series: str, column: str, scale: tuple[float, float, bool]
) -> go.Figure:
    """Draw the last values of one algorithm over the two keys that were swept.

    Parameters
    ----------
    results : Results
        A result folder.
    sweep : SweptPoints
        What `sweeps.find` returned.
    series : str
        The algorithm.
    column : str
        A column of the rounds.
    scale : (float, float, bool)
        Least and largest value of the colours, and whether their scale is logarithmic.

    Returns
    -------
    Figure
        Cells of which every run failed say so; cells that were not run are empty.
    """
    rows = sweep.values(results, column)
    rows = rows[rows["series"] == series]
    x, y = sweep.keys
    cells = rows.pivot_table(index=y, columns=x, values="value", dropna=False, aggfunc="mean")
    z = cells.to_numpy(float)
    low, high, log = scale
    figure = canvas(max(220, _CELL * len(cells) + 64), hovermode="closest")
    style = series_styles(results, sweep)[series]
    marks.mark(
        figure, "heatmap", "map",
        f"{sweep.titles[0]} %{{x}}, {sweep.titles[1]} %{{y}}: %{{customdata}}",
        z=np.log10(np.where(z > 0, z, np.nan)) if log else z,
        zmin=np.log10(low) if log else low, zmax=np.log10(high) if log else high,
        colorscale=_better_is_darker(results, style, column), xgap=2, ygap=2,
        text=_texts(z), textfont={"size": FONT_SIZE}, customdata=_texts(z),
        texttemplate="%{text}" if cells.shape[1] <= MOST_TICKS else "",
        colorbar=colorbar(end_title(results, column)) | (powers(low, high) if log else {}),
    )  # fmt: skip
    _mark_failed(figure, rows, cells)
    for axis, keys, title in (
        (figure.layout.xaxis, cells.columns, sweep.titles[0]),
        (figure.layout.yaxis, cells.index, sweep.titles[1]),
    ):
        axis.update(title_text=title, showgrid=False, tickvals=np.arange(len(keys)))
        axis.update(ticktext=powered(keys.to_numpy(float).tolist()))
    return figure


def sweep(results: Results, column: str | None = None, series: str | None = None) -> go.Figure:
    """Draw the last values of a column over the one or two numbers that a study swept.

    Parameters
    ----------
    results : Results
        A result folder.
    column : str, optional
        A column of the rounds. If None: the one that comes first on the page.
    series : str, optional
        The algorithm, where two numbers were swept and each algorithm has a map; the first if None.

    Raises
    ------
    ValueError
        If the study swept nothing, or there is no such algorithm.
    """
    swept = _swept(results)
    if series is not None and series not in swept.series:
        raise ValueError(unknown("series", series, swept.series))
    drawn = sweep_figures(results, swept, column or first_column(results))
    return drawn[swept.series.index(series) if series and len(drawn) > 1 else 0]


def _swept(results: Results) -> SweptPoints:
    """Return the sweep of a study; raise `NothingToDraw` unless it is over one number or two."""
    swept = sweeps.find(results)
    if swept is None:
        raise NothingToDraw("this study swept neither one number nor two; see `summary`")
    return swept


def sweep_figures(results: Results, sweep: SweptPoints, column: str) -> list[go.Figure]:
    """Return the figures of a sweep: one of lines, or a map for each algorithm."""
    if len(sweep.keys) == 1:
        return [sweep_line(results, sweep, column)]
    scale = colour_scale(results, sweep, column)
    maps = [sweep_map(results, sweep, series, column, scale) for series in sweep.series]
    return [*maps, sensitivity(results, sweep, column)]


def sensitivity(results: Results, sweep: SweptPoints, column: str) -> go.Figure:
    """Draw the effect of each key on the last values with all others at their best.

    Parameters
    ----------
    results : Results
        A result folder.
    sweep : SweptPoints
        What `sweeps.find` returned.
    column : str
        A column of the rounds.

    Returns
    -------
    Figure
        A row for each algorithm and key with a dot for each of its values.
    """
    ends = sweep.values(results, column)
    styles = series_styles(results, sweep)
    rows = [(series, key) for series in sweep.series for key in sweep.keys]
    figure = canvas(_CELL * max(3, len(rows)) // 2 + 84, hovermode="closest")
    names = []
    for series, key in rows:
        values = along(results, ends[ends["series"] == series], sweep.keys, key, column)
        names.append(f"{sweep.titles[sweep.keys.index(key)]}, {plain(series)}")
        texts = [units.setting(value) for value in values[key]]
        marks.dots(
            figure, "along", values["value"].to_numpy(), [names[-1]] * len(values),
            {"color": styles[series].light, "size": 9, "opacity": 1},
            f"{names[-1]} %{{customdata}}: %{{x:.4~g}}", customdata=texts,
            mode="lines+markers", line={"color": LIGHT["strip"], "width": 3},
        )  # fmt: skip
    known = [trace.x for trace in figure.data]
    figure.update_xaxes(fitted(end_title(results, column), known))
    marks.rows_down(figure, names)
    return figure


def along(
    results: Results, ends: pd.DataFrame, keys: Sequence[str], key: str, column: str
) -> pd.DataFrame:
    """Return the points of one algorithm that differ from its best one in one key alone."""
    known = ends.dropna(subset=["value"]).sort_values("value", kind="stable")
    if not len(known):
        return known
    lower = results.column(column).better != "higher" or stopped_at(results, column) is not None
    best = known.iloc[0 if lower else -1]
    others = [other for other in keys if other != key]
    return known[(known[others] == best[others]).all(axis=1)]


def colour_scale(results: Results, sweep: SweptPoints, column: str) -> tuple[float, float, bool]:
    """Return the scale of the colours of all maps: least, largest, and whether logarithmic."""
    ends = sweep.values(results, column)["value"].dropna().to_numpy()
    if not len(ends):
        return 0.0, 1.0, False
    return float(ends.min()), float(ends.max()), spans_decades([ends])


def series_styles(results: Results, sweep: SweptPoints) -> dict[str, LineStyle]:
    """Return the style of each algorithm of a sweep: that of its first point elsewhere."""
    styles = algorithm_styles(results)
    return {s: styles[name] for s, name in zip(sweep.series, sweep.firsts, strict=True)}


def _better_is_darker(results: Results, style: LineStyle, column: str) -> list[list[Any]]:
    pale, full = (colour for _, colour in fade(style))
    lower = results.column(column).better == "lower" or stopped_at(results, column) is not None
    return [[0.0, full], [1.0, pale]] if lower else fade(style)


def _texts(z: Floats) -> list[list[str]]:
    """Return numbers that tell the cells apart."""
    texts = iter(units.telling(z.ravel().tolist()))
    return [[next(texts) for _ in row] for row in z]


def _mark_failed(figure: go.Figure, rows: pd.DataFrame, cells: pd.DataFrame) -> None:
    failed = rows[rows["failed"]]
    x, y = (axis.get_indexer(pd.Index(failed[axis.name])) for axis in (cells.columns, cells.index))
    font = {"color": LIGHT["muted"]}
    marks.texts(figure, "failed", x, y, ["failed"] * len(failed), font, cliponaxis=None)


class _ColumnsPanel(Panel):
    """Base of panels that show something of the column that is chosen to be shown."""

    def of(self, column: str) -> dict[str, Any]:
        """Return the views of a column."""
        raise NotImplementedError

    @cached_property
    def payload(self) -> dict[str, Any]:
        """Views of every column."""
        return {column: self.of(column) for column in self.source.columns}

    @property
    def shown(self) -> dict[str, Any]:
        """The initial view of the page."""
        shown: dict[str, Any] = self.payload[self.source.y]
        return shown


class SweepPanel(_ColumnsPanel):
    """Lines, or heat maps and the effect of each key, for the chosen column."""

    name: ClassVar[str] = "sweep"
    section = Section.SETTINGS
    rank = 0
    draws = (sweep,)

    @cached_property
    def sweep(self) -> SweptPoints:
        """The sweep."""
        return _swept(self.results)

    @property
    def applies(self) -> bool:
        """Whether anything was swept; a search, and cases by one number, have their own panels."""
        with suppress(NothingToDraw):
            levels = self.results.cases and not self.maps
            return bool(self.sweep) and self.source.searched is None and not levels
        return False

    def of(self, column: str) -> dict[str, Any]:
        """Return the figures of a column."""
        figures = sweep_figures(self.results, self.sweep, column)
        return {"figures": [figure_json(figure) for figure in figures]}

    @property
    def maps(self) -> bool:
        """Whether figures are heat maps over two keys."""
        return len(self.sweep.keys) == 2

    @property
    def stops(self) -> bool:
        """Whether any column ends a run, so that the rounds until then are drawn."""
        return any(stopped_at(self.results, column) is not None for column in self.payload)

    @property
    def key(self) -> list[tuple[int, LineStyle, str]]:
        """The key of the lines, empty where there is one or where there are maps."""
        return [] if self.maps else self.source.lines(self.sweep.series, self.sweep.firsts)

    @property
    def heads(self) -> list[str]:
        """Headings of the figures."""
        if not self.maps:
            return [""]
        several = len(self.sweep.series) > 1
        return [*(self.sweep.series if several else [""]), SENSITIVITY]


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
    return over_levels(points, styles, key, f"final {results.column(column).label}", _BESIDE_TABLE)


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
    """Return the style of each algorithm, by its name in the table."""
    inside = [(part.families, algorithm_styles(part)) for part in results.cases.values()]
    return {of.get(name, name): style for of, styles in inside for name, style in styles.items()}


class CasesPanel(_ColumnsPanel):
    """The table of algorithms by cases below the headline, and the same as figures."""

    name: ClassVar[str] = "cases"
    section = Section.ANSWER
    rank = 10
    draws = (levels, critical_difference)

    @property
    def applies(self) -> bool:
        """Whether the study compares algorithms in cases."""
        return bool(self.source.cases)

    def of(self, column: str) -> dict[str, Any]:
        """Return the table of a column as HTML, the figures, and the note on ranks."""
        found = ranks(self.results, column)
        macros = environment().get_template("macros.html").module
        rows = pivot(self.results, column)
        return {
            "table": str(macros.pivot(rows, self.source, self._lines)),  # type: ignore[attr-defined]
            "levels": self._drawn(levels, column),
            "ranks": self._drawn(critical_difference, column),
            "ranked": None if found is None else keep_units(of_ranks(found)),
        }

    @cached_property
    def _lines(self) -> dict[str, str]:
        """A name of each algorithm in the table, for the line beside it."""
        parts = [source.results for source in self.source.parts]
        return {part.families.get(name, name): name for part in parts for name in part.names}

    def _drawn(self, draw: Draw, column: str) -> dict[str, Any] | None:
        with suppress(NothingToDraw):
            return figure_json(draw(self.results, column))
        return None

    @property
    def choices(self) -> list[tuple[str, str]]:
        """The columns of which one end is best, with their titles."""
        known = [self.results.column(name) for name in self.source.columns]
        return [(column.name, column.title) for column in known if column.better is not None]
