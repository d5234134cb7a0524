"""Columns against each other: any two, last values and costs, memory errors by round."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.core.arrays import Floats
from rayfed.report.figures import marks
from rayfed.report.figures.facets import axis_names
from rayfed.report.figures.labels import label_ends, plain
from rayfed.report.figures.palette import LIGHT, LineStyle
from rayfed.report.figures.style import (
    algorithm_styles,
    canvas,
    column_axis,
    fitted,
    line,
    x_scales,
)
from rayfed.report.panels.base import FigurePanel, Section, figure_json, short_columns
from rayfed.report.read.curves import (
    EPSILON,
    Curve,
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
COSTS = ("bytes_up", "time_s", EPSILON)
_ROW, _GAP, _HEAD = 230, 62, 20  # pixels: of axes with their ticks, of these, above the first
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
    ValueError
        If no run has both columns.
    """
    pair = first_pair(results)
    x, y = x or pair[0], y or pair[1]
    paths = {name: path(results, name, x, y) for name in results.names}
    paths = {name: values for name, values in paths.items() if len(values)}
    if not paths:
        raise marks.NothingToDraw(f"no run has {x} and {y} in the same rounds")
    scales = x_scales(results)
    clock = scales.get(x, {"worth": 1.0, "title": results.column(x).label})
    paths = {name: values.assign(x=values["x"] / clock["worth"]) for name, values in paths.items()}
    figure, styles = canvas(HEIGHT, hovermode="closest"), algorithm_styles(results)
    for name, values in paths.items():
        _add_path(figure, name, values, styles[name])
    for key, column, heading in (("x", x, clock["title"]), ("y", y, results.column(y).label)):
        linear = (key == "x" and column in scales) or "accuracy" in column
        lines = [values[key].to_numpy() for values in paths.values()]
        figure.layout[f"{key}axis"].update(fitted(heading, lines, False if linear else None))
    return figure


def _add_path(figure: go.Figure, name: str, values: pd.DataFrame, style: LineStyle) -> None:
    """Add the line of an algorithm, and a dot at its end."""
    x, y = values["x"].to_numpy(), values["y"].to_numpy()
    hover = f"{plain(name)}, {values.index.name} %{{customdata}}<br>%{{x:.4~g}}, %{{y:.4~g}}"
    about = {"customdata": values.index.to_numpy(), "name": plain(name)}
    marks.lines(figure, "path", x, y, line(style), hover, of=name, **about)
    marks.dots(figure, "end", x[-1:], y[-1:], {"size": 9, "color": style.light}, of=name)


def first_pair(results: Results) -> tuple[str, str]:
    """Return the columns that are drawn first: the first two, or bytes and the only one."""
    columns = y_columns(results)
    if len(columns) < 2:
        return "bytes_up", columns[0] if columns else "loss"
    other = next((c for c in ("accuracy", "test_loss") if c in columns[1:]), columns[1])
    return columns[0], other


def path(results: Results, name: str, x: str, y: str) -> pd.DataFrame:
    """Return the means over seeds of two columns, ``x`` and ``y``, at the rounds that have both."""
    both = (
        seed_means(results, name, (x, y))
        .reindex(columns=[x, y])
        .set_axis(["x", "y"], axis=1)
        .dropna()
    )
    return both.iloc[thin(np.arange(len(both)), _MOST)]


def seed_means(results: Results, name: str, columns: Iterable[str]) -> pd.DataFrame:
    """Return means over seeds of columns of `curves.history`, by round.

    NaN where a seed that has the column has no value. Where seeds have few evaluated rounds in
    common, as when time decides, their evaluations come together by number: the index is then that
    number, from 0, and has the name "evaluation".
    """
    frames = [history(run).set_index("round", drop=False) for run in results.usable(name)]
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
    """Whether seeds are evaluated in the same rounds: beside round 0, at least in every other."""
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

    @cached_property
    def content(self) -> dict[str, Any]:
        """The figure, the columns that it shows, and the ``means`` of all columns by round."""
        columns = [x for x, _ in self.xs if x != "round"]
        first, means = dict(zip("xy", first_pair(self.results), strict=True)), {}
        for name in self.results.names:
            found = seed_means(self.results, name, columns).rename_axis("round").reset_index()
            means[name] = short_columns(found, ["round", *columns], _MOST)
        return super().content | {"first": first, "means": means}

    @property
    def xs(self) -> list[tuple[str, str]]:
        """The choices of an x axis: clocks and columns with their titles."""
        shown = clocks(self.results)
        axes = {name: axis.title for name, axis in shown.items()}
        return list((axes | {c: t for c, t in self.ys if c not in shown}).items())

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
        large dot at the means over seeds, small ones at the seeds. The grey line is the front: none
        is better at less.

    Raises
    ------
    NothingToDraw
        If no setting has a last value, or all cost the same.
    """
    column = column or first_column(results)
    ends = _ends(results, column)
    if not ends:
        raise marks.NothingToDraw(f"no costs of {column} differ")
    height = _ROW * len(ends) + _HEAD
    figure, scales = canvas(height), x_scales(results)
    like = [figure.layout[key].to_plotly_json() for key in ("xaxis", "yaxis")]
    for place, (cost, pairs) in enumerate(ends.items()):
        x, y = axis_names(place)
        scale = scales[cost]
        in_units = {name: each / [[scale["worth"]], [1.0]] for name, each in pairs.items()}
        _add_setting(figure, in_units, results, column, {"xaxis": x, "yaxis": y})
        top = 1 - (place * _ROW + _HEAD) / height
        xs, ys = ([pair[k] for pair in in_units.values()] for k in (0, 1))
        across = fitted(scale["title"], xs) | {"anchor": y}
        up = column_axis(results.column(column), ys, "final ")
        up |= {"anchor": x, "domain": [top - (_ROW - _GAP) / height, top]}
        for key, own, axis in zip("xy", like, (across, up), strict=True):
            figure.layout[f"{key}axis{x[1:]}"] = own | axis
    return figure.update_layout(hovermode="closest", margin={"t": 10, "b": 10})


def _add_setting(
    figure: go.Figure,
    pairs: Mapping[str, Floats],
    results: Results,
    column: str,
    axes: Mapping[str, str],
) -> None:
    """Draw the front, and a large dot at the means and small ones at the seeds of each setting."""
    styles, means = algorithm_styles(results), _means(pairs)
    steps = np.array([means[name] for name in _front(means, results.column(column).better)])
    grey = {"color": LIGHT["strip"], "width": 2, "shape": "hv"}
    marks.lines(figure, "front", steps[:, 0], steps[:, 1], grey, **axes)
    for name, (costs, values) in pairs.items():
        hover = f"{plain(name)}<br>%{{x:.4~g}}, %{{y:.4~g}}"
        dot: dict[str, Any] = {"color": styles[name].light, "line": marks.NO_LINE}
        small = dot | {"size": 5, "opacity": 0.45}
        marks.dots(figure, "seeds", costs, values, small, of=name, **axes)
        rim = {"size": 11, "line": {"width": 1.5, "color": LIGHT["background"]}}
        x, y = means[name][:, None].tolist()
        marks.dots(figure, "mean", x, y, dot | rim, hover, of=name, **axes)


def _ends(results: Results, column: str) -> dict[str, dict[str, Floats]]:
    """Return cost and value (2, seeds) of each setting by each cost, as far as costs differ."""
    found: dict[str, dict[str, Floats]] = {}
    for cost in COSTS:
        ends = {}
        for name in (name for name in results.names if name not in results.failed):
            runs = [np.array(points(history(run), cost, column)) for run in results.usable(name)]
            ends[name] = np.hstack([np.empty((2, 0)), *(run[:, -1:] for run in runs)])
        ends = {name: pairs for name, pairs in ends.items() if pairs.size}
        costs = [pairs[0].mean() for pairs in ends.values()]
        if len(costs) > 1 and max(costs) > _ALIKE * min(costs):
            found[cost] = ends
    return found


def _means(pairs: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return mean cost and value (2,) of each setting."""
    return {name: each.mean(axis=1) for name, each in pairs.items()}


def _front(means: Mapping[str, Floats], better: str | None) -> list[str]:
    """Return the settings of which none is better at less, by cost."""
    best, front = np.inf, []
    sign = -1 if better == "higher" else 1
    for name in sorted(means, key=lambda name: (means[name][0], sign * means[name][1])):
        if sign * means[name][1] < best:
            best = sign * means[name][1]
            front.append(name)
    return front


def _per_update(results: Results, names: Collection[str]) -> list[float]:
    """Return the bytes that an update of each of some algorithms takes."""
    found = []
    for name in names:
        frames = [run.rounds for run in results.usable(name) if "bytes_up" in run.rounds]
        used = sum(float(frame["participants"].sum()) for frame in frames)
        if used:
            found.append(sum(float(frame["bytes_up"].sum()) for frame in frames) / used)
    return found


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
        "A large dot is the mean over seeds of a setting, small ones are its seeds. Along the grey "
        "line none ends better at less."
    )

    @property
    def applies(self) -> bool:
        """Whether traffic differs: epsilon is recorded, or bytes per update differ."""
        sizes = _per_update(self.results, self.results.rivals)
        coded = len(sizes) > 1 and max(sizes) > _CODED * min(sizes)
        return (coded or EPSILON in self.results.rounds) and super().applies

    @cached_property
    def content(self) -> dict[str, Any]:
        """The figure of the first column, and of each other one that can be won."""
        columns = [c for c in y_columns(self.results) if self.results.column(c).better]
        shown = {c: self._of(c) for c in columns if c != self.source.y and _ends(self.results, c)}
        return super().content | {"columns": shown}

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
    curves = _left_out_curves(results)
    if not curves:
        raise marks.NothingToDraw("no run has what compression left out; set evaluate.left_out")
    figure, styles = canvas(LEFT_OUT_HEIGHT, hovermode="x unified"), algorithm_styles(results)
    for name, values in curves.items():
        marks.lines(
            figure, "mean", values.x, values.mean, line(styles[name]), of=name, name=name,
            hovertemplate="%{y:.3g}", mode="lines" if len(values.x) > 1 else "markers",
        )  # fmt: skip
    means = [values.mean for values in curves.values()]
    figure.update_yaxes(column_axis(results.column(_LEFT_OUT), means))
    figure.update_xaxes(title_text="round", showgrid=False)
    label_ends(figure, {name: float(c.mean[-1]) for name, c in curves.items()}, styles)
    return figure


def _left_out_curves(results: Results) -> dict[str, Curve]:
    """Return the memory errors of each algorithm by round, where recorded."""
    found = {}
    for name in results.names:
        values = curve([history(run) for run in results.usable(name)], "round", _LEFT_OUT)
        if len(values.x):
            found[name] = values
    return found


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
        "Root mean square, over the replies of a round, of the norm of what memories have not sent "
        "yet; mean over seeds."
    )
