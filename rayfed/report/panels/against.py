"""Any two columns against each other, chosen by the reader."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.report.figures import marks
from rayfed.report.figures.labels import plain
from rayfed.report.figures.palette import LineStyle
from rayfed.report.figures.style import (
    algorithm_styles,
    canvas,
    fitted,
    line,
    x_scales,
)
from rayfed.report.panels.base import FigurePanel, Section
from rayfed.report.read.results import Results
from rayfed.report.read.series import X_AXES, clocks, history, thin, y_columns
from rayfed.report.read.units import short_number

HEIGHT = 400
_MOST = 600  # points of a line


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
        raise ValueError(f"no run has {x} and {y} in the same rounds")
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
    """Return means over seeds of columns of `series.history`, by round.

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


def _stored(means: pd.DataFrame) -> dict[str, list[float | None]]:
    """Return means as short lists; evaluated rounds are kept before others."""
    if len(means) > _MOST and "loss" in means and means["loss"].notna().any():
        means = means[means["loss"].notna()]
    kept = means.iloc[thin(np.arange(len(means)), _MOST)]
    values = {str(c): [short_number(value) for value in kept[c]] for c in kept}
    return values | {"round": kept.index.tolist()}


def title(results: Results, x: str, y: str) -> str:
    """Return which columns are drawn."""
    under = X_AXES[x].title if x in clocks(results) else results.column(x).title
    return f"{results.column(y).title} against {under}"


class AgainstPanel(FigurePanel):
    """A line an algorithm through the rounds; its script draws other pairs."""

    name: ClassVar[str] = "against"
    section = Section.RESULTS
    rank = 40
    draws = (against,)
    best_only = True
    keyed = True
    labelled = False

    @property
    def applies(self) -> bool:
        """Whether there are two columns to draw."""
        pair = first_pair(self.results)
        several = len(y_columns(self.results)) > 1  # over a clock one is drawn above
        return several and any(len(path(self.results, n, *pair)) for n in self.results.names)

    def title(self) -> str:
        """Return which columns are drawn."""
        return title(self.results, *first_pair(self.results))

    @cached_property
    def content(self) -> dict[str, Any]:
        """The figure, the columns that it shows, and the ``means`` of all columns by round."""
        columns = [x for x, _ in self.xs if x != "round"]
        found = {name: seed_means(self.results, name, columns) for name in self.results.names}
        return super().content | {
            "first": dict(zip("xy", first_pair(self.results), strict=True)),
            "means": {name: _stored(frame) for name, frame in found.items()},
        }

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
