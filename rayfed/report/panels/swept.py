"""Last values over varied settings: one or two swept numbers, and cases."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.core.errors import unknown
from rayfed.report.figures import charts, marks
from rayfed.report.figures.labels import plain
from rayfed.report.figures.marks import MOST_TICKS, NothingToDraw, over_levels, powered
from rayfed.report.figures.palette import LIGHT, LineStyle
from rayfed.report.figures.style import (
    FONT_SIZE,
    algorithm_styles,
    canvas,
    colorbar,
    column_axis,
    end_axis,
    end_title,
    fade,
    powers,
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
SENSITIVITY = (
    "Effect of each key with the other at its best value: a dot for each value of the key."
)


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
    axis = end_axis(results, column, [rows["value"].to_numpy()])
    return over_levels(rows, series_styles(results, sweep), title, axis, HEIGHT)


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
        Cells without a successful run are marked "failed"; cells without a run are empty.
    """
    rows = sweep.values(results, column)
    rows = rows[rows["series"] == series]
    across, down = sweep.keys
    cells = rows.pivot_table("value", down, across, dropna=False, aggfunc="mean")
    z = cells.to_numpy(float)
    texts = np.reshape(units.telling(z.ravel().tolist()), z.shape)  # with enough digits to differ
    low, high, log = scale
    figure = canvas(max(220, _CELL * len(cells) + 64), hovermode="closest")
    marks.mark(
        figure, "heatmap", "map",
        f"{sweep.titles[0]} %{{x}}, {sweep.titles[1]} %{{y}}: %{{customdata}}",
        z=np.log10(np.where(z > 0, z, np.nan)) if log else z,
        zmin=np.log10(low) if log else low, zmax=np.log10(high) if log else high,
        colorscale=fade(series_styles(results, sweep)[series]),
        reversescale=_lower_is_better(results, column), xgap=2, ygap=2,
        text=texts, textfont={"size": FONT_SIZE}, customdata=texts,
        texttemplate="%{text}" if cells.shape[1] <= MOST_TICKS else "",
        colorbar=colorbar(end_title(results, column)) | (powers(low, high) if log else {}),
    )  # fmt: skip
    failed, font = rows[rows["failed"]], {"color": LIGHT["muted"]}
    x, y = (keys.get_indexer(pd.Index(failed[keys.name])) for keys in (cells.columns, cells.index))
    marks.texts(figure, "failed", x, y, ["failed"] * len(failed), font, cliponaxis=None)
    for axis, keys, title in zip("xy", (cells.columns, cells.index), sweep.titles, strict=True):
        figure.layout[f"{axis}axis"].update(
            title_text=title, showgrid=False, tickvals=np.arange(len(keys)),
            ticktext=powered(keys.to_numpy(float).tolist()),
        )  # fmt: skip
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
    titles = dict(zip(sweep.keys, sweep.titles, strict=True))
    rows = {f"{titles[key]}, {of}": (of, key) for of in sweep.series for key in sweep.keys}
    figure = charts.rows([*rows], _ROW)
    for place, (series, key) in enumerate(rows.values()):
        values = along(results, ends[ends["series"] == series], sweep.keys, key, column)
        marks.dots(
            figure, "along", values["value"].to_numpy(), [place] * len(values),
            {"color": styles[series].light, "size": 9, "opacity": 1},
            f"{titles[key]} %{{customdata}}, {plain(series)}: %{{x:.4~g}}", mode="lines+markers",
            line={"color": LIGHT["strip"], "width": 3},
            customdata=[*map(units.setting, values[key])],
        )  # fmt: skip
    return figure.update_xaxes(end_axis(results, column, [trace.x for trace in figure.data]))


def along(
    results: Results, ends: pd.DataFrame, keys: Sequence[str], key: str, column: str
) -> pd.DataFrame:
    """Return the points of one algorithm that differ from its best one in one key alone."""
    known = ends.dropna(subset=["value"]).sort_values("value", kind="stable")
    if not len(known):
        return known
    best = known.iloc[0 if _lower_is_better(results, column) else -1]
    others = [other for other in keys if other != key]
    return known[(known[others] == best[others]).all(axis=1)]


def colour_scale(results: Results, sweep: SweptPoints, column: str) -> tuple[float, float, bool]:
    """Return the scale of the colours of all maps: least, largest, and whether logarithmic."""
    ends = sweep.values(results, column)["value"].dropna().to_numpy()
    if not len(ends):
        return 0.0, 1.0, False
    log = end_axis(results, column, [ends])["type"] == "log"
    return float(ends.min()), float(ends.max()), log


def series_styles(results: Results, sweep: SweptPoints) -> dict[str, LineStyle]:
    """Return the style of each algorithm of a sweep: that of its first point elsewhere."""
    styles = algorithm_styles(results)
    return {s: styles[name] for s, name in zip(sweep.series, sweep.firsts, strict=True)}


def _lower_is_better(results: Results, column: str) -> bool:
    return results.column(column).better != "higher" or stopped_at(results, column) is not None


class _ColumnsPanel(Panel):
    """Base of panels that show something of the column that is chosen to be shown."""

    def of(self, column: str) -> dict[str, Any]:
        """Return the views of a column."""
        raise NotImplementedError

    @cached_property
    def payload(self) -> dict[str, Any]:
        """Views of every column that is made."""
        return {column: self.of(column) for column in self.source.drawn}

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
        return any(stopped_at(self.results, column) is not None for column in self.source.columns)

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
    """Draw the last values of all algorithms against the number by which the cases differ.

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
    points = pd.DataFrame(rows, columns=["series", "level", "value", "sd"])
    spread = [(points["value"] + k * points["sd"].fillna(0)).to_numpy() for k in (-1, 1)]
    axis = column_axis(results.column(column), [points["value"].to_numpy()], "final ", spread)
    return over_levels(points, _styles(results), key, axis, _BESIDE_TABLE)


def level_of(results: Results) -> tuple[str, dict[str, float]]:
    """Return the number by which cases differ: its title, and its value in each case.

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
    raise NothingToDraw("the cases of this study do not differ by one number alone")


def critical_difference(results: Results, column: str | None = None) -> go.Figure:
    """Draw the mean ranks of algorithms over cases and their differences; see `pivot.Ranks`.

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
    styles, names = _styles(results), [*found.means]
    figure = charts.rows([*names, *[""] * len(found.groups)], _ROW)
    for place, group in enumerate(found.groups, len(names)):
        ends = [found.means[group[0]], found.means[group[-1]]]
        hover = f"no significant difference: {', '.join(map(plain, group))}"
        heavy = {"color": LIGHT["muted"], "width": 5}
        marks.lines(figure, "level", ends, [place] * 2, heavy, hover)
    for place, (name, rank) in enumerate(found.means.items()):
        dot = {"size": 10, "color": styles[name].light}
        marks.dots(figure, "rank", [rank], [place], dot, f"{plain(name)}: %{{x:.3~g}}", of=name)
    title = f"mean rank over {found.cases} cases (1 is best)"
    return figure.update_xaxes(
        title_text=title, range=[0.8, len(names) + 0.2], dtick=1, nticks=None
    )


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
        """A name of each algorithm in the table, for the line next to it."""
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
