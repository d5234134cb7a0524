"""Marks: lines, dots, bars, cells and texts in the house style, each a named part of its figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.core.arrays import Floats
from rayfed.report.figures.labels import plain
from rayfed.report.figures.palette import LIGHT, LineStyle
from rayfed.report.figures.style import canvas, fitted, line, spans_decades
from rayfed.report.read import units
from rayfed.report.read.results import RunRecord

NO_LINE = {"width": 0}
INSIDE: dict[str, Any] = {
    "textposition": "inside", "insidetextanchor": "middle", "textangle": 0,
    "constraintext": "inside",
}  # fmt: skip
"""How texts stand in bars."""
MOST_TICKS = 12
"""Levels of which each has a tick."""


class NothingToDraw(ValueError):
    """The results lack the data of a figure."""

    @classmethod
    def of(cls, run: RunRecord, what: str) -> NothingToDraw:
        """Return that a run lacks something, which comes after "the run of ..., ...,"."""
        return cls(f"the run of {run.name}, seed {run.seed}, {what}")


def mark(
    figure: go.Figure, kind: str, part: str, hover: str = "", of: str = "", **is_: Any
) -> None:
    """Add a trace to a figure.

    Parameters
    ----------
    figure : Figure
    kind : str
        The kind of trace, such as "scatter".
    part : str
        What it is in the figure, in ``meta["part"]``, by which scripts and tests find it.
    hover : str
        What a hover says; nothing if empty, unless a ``hovertemplate`` is given.
    of : str
        The algorithm that it is of, in ``meta["name"]``.
    **is_
        All else, as Plotly takes it.
    """
    if "hovertemplate" not in is_:
        is_ |= {"hovertemplate": f"{hover}<extra></extra>"} if hover else {"hoverinfo": "skip"}
    about = {"name": of} if of else {}
    place = {key: is_.pop(key) for key in ("row", "col") if key in is_}
    # Not by add_scatter and its like, which check and copy a trace twice.
    figure.add_trace({"type": kind, "meta": about | {"part": part}, **is_}, **place)


def lines(
    figure: go.Figure,
    part: str,
    x: Any,
    y: Any,
    line: Mapping[str, Any],
    hover: str = "",
    **is_: Any,
) -> None:
    """Add a line through points."""
    mark(figure, "scatter", part, hover, **{"x": x, "y": y, "mode": "lines", "line": line, **is_})


def dots(
    figure: go.Figure,
    part: str,
    x: Any,
    y: Any,
    marker: Mapping[str, Any],
    hover: str = "",
    **is_: Any,
) -> None:
    """Add dots, which are whole at the edge of the figure, too."""
    base = {"x": x, "y": y, "mode": "markers", "marker": marker, "cliponaxis": False}
    mark(figure, "scatter", part, hover, **base | is_)


def bars(
    figure: go.Figure,
    part: str,
    x: Any,
    y: Any,
    colour: Any,
    hover: str,
    shape: str = "",
    **is_: Any,
) -> None:
    """Add bars without a frame, with a pattern of the background's colour if `shape` names one."""
    marker: dict[str, Any] = {"color": colour, "line": NO_LINE}
    if shape:
        # Without one ground Plotly warns of a list of colours; it then draws each bar on its own.
        marker["pattern"] = {
            "shape": shape, "fillmode": "overlay", "size": 6, "solidity": 0.25,
            "bgcolor": colour if isinstance(colour, str) else colour[0],
            "fgcolor": LIGHT["background"],
        }  # fmt: skip
    mark(figure, "bar", part, hover, **{"x": x, "y": y, "marker": marker, **is_})


def segments(x: Any, ends: Any) -> tuple[Any, Floats]:
    """Return lines at places (n,), each through its points (n, k), as one line with gaps."""
    gaps = np.full((len(ends), 1), np.nan)
    points = np.hstack([np.asarray(ends, np.float64), gaps])
    return np.repeat(x, points.shape[1]), points.ravel()


def texts(
    figure: go.Figure,
    part: str,
    x: Any,
    y: Any,
    text: Sequence[str],
    font: Mapping[str, Any],
    **is_: Any,
) -> None:
    """Add texts at points, which may reach over the edge of the figure."""
    base = {"x": x, "y": y, "mode": "text", "text": text, "textfont": font, "cliponaxis": False}
    mark(figure, "scatter", part, **base | is_)


def over_levels(
    points: pd.DataFrame, styles: Mapping[str, LineStyle], x: str, y: Mapping[str, Any], height: int
) -> go.Figure:
    """Draw a line for each series, with a bar of one deviation at each level where it is known.

    Parameters
    ----------
    points : DataFrame
        ``series``, ``level``, ``value`` and ``sd`` (NaN where there is none).
    styles : mapping of str to LineStyle
        The series in their order.
    x : str
        Title of the axis of levels.
    y : mapping
        The axis of values, of `style.column_axis`.
    height : int
        Pixels.
    """
    figure = canvas(height, hovermode="x unified")
    for series, style in styles.items():
        rows = points[points["series"] == series].sort_values("level")
        spread = rows["sd"].to_numpy(float)
        bars = {"array": spread, "thickness": 1.5, "width": 4, "color": style.light}
        lines(
            figure, "mean", rows["level"].to_numpy(), rows["value"].to_numpy(), line(style),
            of=series, mode="lines+markers", name=plain(series), hovertemplate="%{y:.3g}",
            marker={"size": 7, "color": style.light},
            error_y=bars if np.isfinite(spread).any() else None,
        )  # fmt: skip
    levels = np.unique(points["level"])
    figure.update_xaxes(unifiedhovertitle_text=f"{x} %{{x:.3~g}}")
    if len(levels) > MOST_TICKS:
        return figure.update_xaxes(fitted(x, [levels])).update_yaxes(y)
    figure.update_xaxes(title_text=x, type="log" if spans_decades([levels]) else "linear")
    figure.update_xaxes(tickvals=levels, ticktext=powered(levels.tolist()))
    return figure.update_yaxes(y)


def powered(values: Sequence[float]) -> list[str]:
    """Return settings as ticks, with powers raised."""
    texts = units.settings(values)
    return [f"2<sup>{text[2:]}</sup>" if text.startswith("2^") else text for text in texts]
