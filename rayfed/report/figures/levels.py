"""Lines over the levels of a number that a study varied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.report.figures import marks
from rayfed.report.figures.labels import plain
from rayfed.report.figures.palette import LineStyle
from rayfed.report.figures.style import canvas, fitted, line, spans_decades
from rayfed.report.read import units

MOST_TICKS = 12
"""Levels of which each has a tick."""


def over_levels(
    points: pd.DataFrame, styles: Mapping[str, LineStyle], x: str, y: str, height: int
) -> go.Figure:
    """Draw a line for each series, with a bar of one deviation at each level where it is known.

    Parameters
    ----------
    points : DataFrame
        ``series``, ``level``, ``value`` and ``sd`` (NaN where there is none).
    styles : mapping of str to LineStyle
        The series in their order.
    x, y : str
        Titles of the axes.
    height : int
        Pixels.
    """
    logs = spans_decades([points["level"].to_numpy()])
    figure = canvas(height, hovermode="x unified")
    for series, style in styles.items():
        rows = points[points["series"] == series].sort_values("level")
        spread = rows["sd"].to_numpy(float)
        bars = {"array": spread, "thickness": 1.5, "width": 4, "color": style.light}
        marks.lines(
            figure, "mean", rows["level"].to_numpy(), rows["value"].to_numpy(), line(style),
            of=series, mode="lines+markers", name=plain(series), hovertemplate="%{y:.3g}",
            marker={"size": 7, "color": style.light},
            error_y=bars if np.isfinite(spread).any() else None,
        )  # fmt: skip
    figure.update_xaxes(title_text=x, type="log" if logs else "linear")
    figure.update_xaxes(unifiedhovertitle_text=f"{x} %{{x:.3~g}}")
    levels = np.unique(points["level"])
    if len(levels) <= MOST_TICKS:
        figure.update_xaxes(tickvals=levels, ticktext=powered(levels.tolist()))
    known = points.dropna(subset=["value"])
    ends = known["value"].to_numpy(), *(known["value"] + k * known["sd"].fillna(0) for k in (-1, 1))
    return figure.update_yaxes(fitted(y, [np.asarray(values) for values in ends]))


def powered(values: Sequence[float]) -> list[str]:
    """Return settings as ticks, with powers raised."""
    texts = units.settings(values)
    return [f"2<sup>{text[2:]}</sup>" if text.startswith("2^") else text for text in texts]
