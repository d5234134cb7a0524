"""Columns against each other: any two, last values and costs, memory errors by round."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.report.figures import charts, marks
from rayfed.report.figures.labels import plain
from rayfed.report.figures.palette import LIGHT
from rayfed.report.figures.style import algorithm_styles, canvas, column_axis, fitted, x_scales
from rayfed.report.panels.base import FigurePanel, Section, figure_json, short_columns
from rayfed.report.read.curves import (
    ENERGY,
    EPSILON,
    clocks,
    curve,
    first_column,
    history,
    points,
    thin,
    y_columns,
)
from rayfed.report.read.results import Results

HEIGHT = 400
_MOST = 600  # points of a line
_ALIKE = 1.05  # costs within this factor are equal
COSTS = ("bytes_up", "time_s", ENERGY, EPSILON)
_ROW, _GAP, _HEAD = 230, 62, 10  # pixels: of axes with their ticks, of these, above the first
_CODED = 1.2  # bytes an update that differ by more are shown
LEFT_OUT_HEIGHT = 320
_LEFT_OUT = "left_out"


def against(results: Results, x: str | None = None, y: str | None = None) -> go.Figure:
    """Draw one column of the rounds against another, a line through the rounds.

    Parameters
    ----------
    results : Results
        A result folder.
    x, y : str, optional
        Columns of the rounds; x may be a clock of `convergence`. If None: `first_pair`.

    Returns
    -------
    Figure
        A line an algorithm, means over seeds of both columns at the rounds in which every seed has
        both; a dot at its last one. See `seed_means`.

    Raises
    ------
    NothingToDraw
        If no run has both columns.
    """
    pair = first_pair(results)
    x, y = x or pair[0], y or pair[1]
    paths = {name: path(results, name, x, y) for name in results.names}
    table = pd.concat([rows.assign(name=name, about=rows.index) for name, rows in paths.items()])
    if not len(table):
        raise marks.NothingToDraw(f"no run has {x} and {y} in the same rounds")
    scales = x_scales(results)
    clock = scales.get(x, {"worth": 1.0, "title": results.column(x).label})
    table["x"] /= clock["worth"]
    axes = {}
    for key, column, title in (("x", x, clock["title"]), ("y", y, results.column(y).label)):
        linear = (key == "x" and column in scales) or "accuracy" in column
        axes[key] = fitted(title, [table[key].to_numpy()], False if linear else None)
    hover = "{name}, {index} %{customdata}<br>%{x:.4~g}, %{y:.4~g}<extra></extra>"
    figure = charts.lines(
        results, table, HEIGHT, axes["x"], axes["y"], hover, "path", labels=False,
        hovermode="closest",
    )  # fmt: skip
    for trace in figure.data:
        index = paths[trace.meta["name"]].index.name
        trace.hovertemplate = trace.hovertemplate.replace("{index}", index)
    for name, end in charts.by_name(table.groupby("name", sort=False).tail(1)):
        marker = {"size": 9, "color": algorithm_styles(results)[name].light}
        charts.dots(figure, "end", end, marker, "", of=name)
    return figure


def first_pair(results: Results) -> tuple[str, str]:
    """Return the columns that are drawn first: the first two, or bytes and the only one."""
    columns = y_columns(results)
    if len(columns) < 2:
        return "bytes_up", columns[0] if columns else "loss"
    other = next((c for c in ("accuracy", "test_loss") if c in columns[1:]), columns[1])
    return columns[0], other


def path(results: Results, name: str, x: str, y: str) -> pd.DataFrame:
    """Return the means over seeds of two columns, ``x`` and ``y``, at the rounds that have both."""
    both = seed_means(results, name, (x, y)).reindex(columns=[x, y]).set_axis(["x", "y"], axis=1)
    both = both.dropna()
    return both.iloc[thin(np.arange(len(both)), _MOST)]


def seed_means(results: Results, name: str, columns: Iterable[str]) -> pd.DataFrame:
    """Return means over seeds of columns of `curves.history`, by round.

    NaN where a seed that has the column has no value. Where seeds have few evaluated rounds in
    common, as when time decides, their evaluations come together by number: the index is then that
    number, from 0, and has the name "evaluation".
    """
    frames = [
        pd.DataFrame(history(run)).set_index("round", drop=False) for run in results.usable(name)
    ]
    if not frames:
        return pd.DataFrame()
    index = "round" if _in_step(frames) else "evaluation"
    if index == "evaluation":
        frames = [frame[frame["loss"].notna()].reset_index(drop=True) for frame in frames]
    wanted = list(dict.fromkeys(columns))
    known = [frame.reindex(columns=wanted).astype(float) for frame in frames]
    known = [frame.where(np.isfinite(frame)) for frame in known]
    every = pd.concat(known).rename_axis(index).groupby(level=0)
    having = pd.DataFrame([frame.notna().any() for frame in known]).sum()
    return every.mean().where(every.count() == having)


def _in_step(frames: Sequence[pd.DataFrame]) -> bool:
    """Whether seeds are evaluated in the same rounds: apart from round 0, in at least half."""
    rounds = [set(frame.index[frame["loss"].notna()]) - {0} for frame in frames if "loss" in frame]
    fewest = min(map(len, rounds), default=0)
    return not rounds or 2 * len(set.intersection(*rounds)) >= fewest


class AgainstPanel(FigurePanel):
    """A line an algorithm through the rounds; its script draws other pairs."""

    name: ClassVar[str] = "against"
    section = Section.RESULTS
    rank = 40
    heading = "Two measures against each other"
    draws = (against,)
    best_only = True
    keyed = True

    @property
    def applies(self) -> bool:
        """Whether there are two columns to draw."""
        return len(y_columns(self.results)) > 1 and super().applies  # over a clock it is above

    @property
    def alike(self) -> list[list[str]]:
        """None: the reader may choose other columns."""
        return []

    @cached_property
    def content(self) -> dict[str, Any]:
        """The figure, its columns, and the ``means`` of all columns by round."""
        columns = [x for x, _ in self.xs if x != "round"]
        first, means = dict(zip("xy", first_pair(self.results), strict=True)), {}
        for name in self.results.names:
            found = seed_means(self.results, name, columns).rename_axis("round").reset_index()
            values = {str(column): found[column].to_numpy() for column in found}
            means[name] = short_columns(values, ["round", *columns], _MOST)
        return super().content | {"first": first, "means": means}

    @property
    def xs(self) -> list[tuple[str, str]]:
        """The choices of an x axis: clocks and columns with their titles."""
        axes = {name: axis.title for name, axis in clocks(self.results).items()}
        return list((axes | dict(self.ys) | axes).items())

    @property
    def ys(self) -> list[tuple[str, str]]:
        """The choices of a y axis: columns with their titles."""
        return [(c, self.results.column(c).title) for c in y_columns(self.results)]


def tradeoff(results: Results, column: str | None = None) -> go.Figure:
    """Draw the last value of each setting against its cost.

    Parameters
    ----------
    results : Results
        A result folder.
    column : str, optional
        A column of the rounds. If None: the one that comes first on the page.

    Returns
    -------
    Figure
        Axes below each other: uploaded bytes, simulated time and epsilon, as far as they differ. A
        large dot at the means over seeds, small ones at the seeds. The grey line is the front: no
        other setting is better at a lower cost.

    Raises
    ------
    NothingToDraw
        If no setting has a last value, or all cost the same.
    """
    column = column or first_column(results)
    ends = _ends(results, column)
    if not len(ends):
        raise marks.NothingToDraw(f"no costs of {column} differ")
    costs = ends["cost"].unique()
    height, scales = _ROW * len(costs), x_scales(results)
    figure = canvas(height, hovermode="closest", margin={"l": 64, "r": 16, "t": _HEAD, "b": _GAP})
    like, room = figure.layout.xaxis.to_plotly_json(), height - _HEAD - _GAP
    figure.set_subplots(rows=len(costs), cols=1, vertical_spacing=_GAP / room)
    figure.update_xaxes(like).update_yaxes(like)
    for row, cost in enumerate(costs, 1):
        at: dict[str, Any] = {"row": row, "col": 1}
        seeds = ends[ends["cost"] == cost]
        seeds = seeds.assign(x=seeds["x"] / scales[cost]["worth"])
        _add_settings(figure, seeds, results, column, at)
        figure.update_xaxes(fitted(scales[cost]["title"], [seeds["x"].to_numpy()]), **at)
        up = column_axis(results.column(column), [seeds["y"].to_numpy()], "final ")
        figure.update_yaxes(up, **at)
    return figure


def _add_settings(
    figure: go.Figure, seeds: pd.DataFrame, results: Results, column: str, at: dict[str, Any]
) -> None:
    """Draw the front, and a large dot at the means and small ones at the seeds of each setting."""
    styles = algorithm_styles(results)
    means = seeds.groupby("name", sort=False, as_index=False)[["x", "y"]].mean()
    front = _front(means, results.column(column).better)
    grey = {"color": LIGHT["strip"], "width": 2, "shape": "hv"}
    marks.lines(figure, "front", front["x"].to_numpy(), front["y"].to_numpy(), grey, **at)
    rim = {"size": 11, "line": {"width": 1.5, "color": LIGHT["background"]}}
    for name, rows in charts.by_name(seeds):
        dot: dict[str, Any] = {"color": styles[name].light, "line": marks.NO_LINE}
        charts.dots(figure, "seeds", rows, dot | {"size": 5, "opacity": 0.45}, "", of=name, **at)
        hover, mean = f"{plain(name)}<br>%{{x:.4~g}}, %{{y:.4~g}}", means[means["name"] == name]
        charts.dots(figure, "mean", mean, dot | rim, hover, of=name, **at)


def _ends(results: Results, column: str) -> pd.DataFrame:
    """Return the last value of each run against each cost, as far as costs differ.

    Returns
    -------
    DataFrame
        ``cost``, ``name``, the cost ``x`` and the value ``y``.
    """
    frames = [pd.DataFrame()]
    for cost in COSTS:
        found = [
            {"cost": cost, "name": name, "x": xs[-1], "y": ys[-1]}
            for name in results.names
            if name not in results.failed
            for xs, ys in (points(history(run), cost, column) for run in results.usable(name))
            if len(xs)
        ]
        table = pd.DataFrame(found)
        costs = table.groupby("name")["x"].mean() if found else pd.Series(dtype=float)
        if len(costs) > 1 and costs.max() > _ALIKE * costs.min():
            frames.append(table)
    return pd.concat(frames)


def _front(means: pd.DataFrame, better: str | None) -> pd.DataFrame:
    """Return the settings that no other one is better than at a lower cost, by cost."""
    worth = means["y"] if better == "higher" else -means["y"]
    ordered = means.assign(worth=worth).sort_values(["x", "worth"], ascending=[True, False])
    return ordered[ordered["worth"] > ordered["worth"].cummax().shift(fill_value=-np.inf)]


def _per_update(results: Results, names: Collection[str]) -> list[float]:
    """Return the bytes that an update of each of some algorithms takes."""
    runs = [run for name in names for run in results.usable(name) if "bytes_up" in run.recorded]
    sums = [run.rounds[["bytes_up", "participants"]].sum().rename(run.name) for run in runs]
    totals = pd.DataFrame(sums, columns=["bytes_up", "participants"]).groupby(level=0).sum()
    return (totals["bytes_up"] / totals["participants"])[totals["participants"] > 0].tolist()


class TradeoffPanel(FigurePanel):
    """A dot for each setting: last value against cost, with the front."""

    name: ClassVar[str] = "tradeoff"
    section = Section.RESULTS
    rank = 35
    draws = (tradeoff,)
    heading = "Final value against cost"
    of_column = True
    keyed = True
    how = (
        "A large dot is the mean over seeds of a setting, small dots are its seeds. No setting is "
        "better at a lower cost than those along the grey line."
    )

    @property
    def applies(self) -> bool:
        """Whether traffic differs: epsilon is recorded, or bytes per update differ."""
        sizes = _per_update(self.results, self.results.rivals)
        coded = len(sizes) > 1 and max(sizes) > _CODED * min(sizes)
        return (coded or EPSILON in self.results.recorded) and super().applies

    @cached_property
    def content(self) -> dict[str, Any]:
        """The figure of the first column, and of each other one that can be won."""
        columns = [c for c in self.source.drawn if self.results.column(c).better]
        others = [c for c in columns if c != self.source.y and len(_ends(self.results, c))]
        return super().content | {"columns": {c: self._of(c) for c in others}}

    def _of(self, column: str) -> dict[str, Any]:
        figure = figure_json(tradeoff(self.results, column))
        return {"title": self.title(), "figure": figure}


def left_out(results: Results) -> go.Figure:
    """Draw the norm of unsent errors in upload memories, by round.

    Parameters
    ----------
    results : Results
        A result folder.

    Returns
    -------
    Figure
        A line for each algorithm that recorded it, mean over seeds.

    Raises
    ------
    NothingToDraw
        If no run recorded it; set ``evaluate.left_out``.
    """
    frames = [pd.DataFrame()]
    for name in results.names:
        values = curve([history(run) for run in results.usable(name)], "round", _LEFT_OUT)
        frames.append(pd.DataFrame({"name": name, "x": values.x, "y": values.mean}))
    table = pd.concat(frames)
    if not len(table):
        raise marks.NothingToDraw("no run recorded compression errors; set evaluate.left_out")
    y = column_axis(results.column(_LEFT_OUT), [table["y"].to_numpy()])
    x = {"title_text": "round", "showgrid": False}
    return charts.lines(results, table, LEFT_OUT_HEIGHT, x, y)


class LeftOutPanel(FigurePanel):
    """Unsent errors in upload memories, a line for each algorithm."""

    name: ClassVar[str] = "left-out"
    section = Section.RESULTS
    rank = 38
    draws = (left_out,)
    heading = "Error memories of the codecs"
    best_only = True
    keyed = True
    how = (
        "Root mean square, over the replies of a round, of the norm of the errors in the memories; "
        "mean over seeds."
    )
