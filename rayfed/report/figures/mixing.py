"""What a walk's mixing costs: rounds to a goal over 1 / (1 - lambda_2), both in logarithms."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.report.figures.labels import plain
from rayfed.report.figures.palette import LIGHT, LineStyle
from rayfed.report.figures.style import FONT_SIZE, algorithm_styles, canvas, line, log_ticks
from rayfed.report.figures.sweep import end_title
from rayfed.report.read import units
from rayfed.report.read.mixing import Power, find
from rayfed.report.read.results import Results

HEIGHT = 400
_TEXTS = 12  # most dots beside which their walk can be written
_ROOM = 96  # pixels at the right for the names of lines


def mixing(results: Results, column: str | None = None) -> go.Figure:
    """Draw the rounds to a goal of every point of a sweep over how long its walk remembers.

    Parameters
    ----------
    results : Results
        A result folder.
    column : str, optional
        What ends the runs. If None: the first of the rounds' columns that tells.

    Returns
    -------
    Figure
        One dot for each point of the sweep, open triangles for points that did not reach the goal,
        and a line of least squares through points that differ in their walk alone.

    Raises
    ------
    ValueError
        If nothing tells what mixing costs; see `read.mixing.find`.
    """
    walks = find(results, column)
    if walks is None:
        raise ValueError("no walks that differ, all else alike, whose runs end at one goal")
    figure = canvas(HEIGHT, hovermode="closest")
    figure.update_layout(margin_r=_ROOM)
    styles = algorithm_styles(results)
    spans = [_extent(walks.points[values]) for values in ("relaxation", "rounds")]
    (left, right), _ = spans
    past, edge = 10 ** (0.02 * (right - left)), 10 ** (left + 0.25 * (right - left))
    for series, points in walks.points.groupby("series", sort=False):
        style, power = styles[points["name"].iloc[0]], walks.powers.get(str(series))
        if power:
            _add_lines(figure, points, power, style, past)
        for _, dots in points.groupby("reached", sort=False):
            _add_dots(figure, dots, power, style, edge if len(walks.points) <= _TEXTS else None)
    for axis, span in zip(("xaxis", "yaxis"), spans, strict=True):
        figure.layout[axis].update(type="log", range=span, **log_ticks(span))
    figure.update_xaxes(title_text="relaxation time of the walk, 1/(1 - λ₂), in moves")
    return figure.update_yaxes(title_text=end_title(results, walks.column.name))


def _extent(values: pd.Series) -> list[float]:
    """Return the range of a log axis, with room for texts beside the outermost dots."""
    low, high = (float(np.log10(end)) for end in (values.min(), values.max()))
    margin = 0.1 * (high - low) or 0.1
    return [low - 2 * margin, high + margin]


def _add_lines(
    figure: go.Figure, points: pd.DataFrame, power: Power, style: LineStyle, past: float
) -> None:
    """Add the lines of an algorithm, each reaching a factor past the points it was fitted to."""
    for group, base in power.rounds.items():
        reached = points[points["reached"] & (points["group"] == group)]["relaxation"]
        x = np.array([reached.min() / past, reached.max() * past])
        figure.add_scatter(
            x=x,
            y=base * x**power.value,
            mode="lines+text",
            line=line(style, 1.5),
            text=["", f"\u00a0{plain(group)}"],
            textposition="middle right",
            textfont={"color": style.light, "size": FONT_SIZE},
            cliponaxis=False,
            hoverinfo="skip",
            meta={"part": "line", "name": points["series"].iloc[0]},
        )


def _add_dots(
    figure: go.Figure, dots: pd.DataFrame, power: Power | None, style: LineStyle, edge: float | None
) -> None:
    """Add dots that all reached the goal, or all did not, their texts on the far side of a line.

    Up to `edge` there is no room at the left; without one dots have no texts.
    """
    reached = bool(dots["reached"].iloc[0])
    x, y = dots["relaxation"].to_numpy(), dots["rounds"].to_numpy()
    base = dots["group"].map(power.rounds if power else {}).to_numpy(float)
    edge, texts = edge or 0.0, edge is not None
    below = y < base * x ** (power.value if power else 0.0)
    figure.add_scatter(
        x=x,
        y=y,
        mode="markers+text" if texts else "markers",
        marker={
            "size": 9,
            "color": style.light,
            "symbol": "circle" if reached else "triangle-up-open",
        },
        text=[plain(text) for text in dots["walk"]],
        # To different sides, so that a dot below one line and one above the next stay apart.
        textposition=[
            "bottom right" if under else "top center" if first else "top left"
            for under, first in zip(below, x < edge, strict=True)
        ],
        textfont={"color": LIGHT["muted"], "size": FONT_SIZE - 1},
        cliponaxis=False,
        customdata=[
            f"{plain(row['name'], 60)}<br>relaxation time {units.number(row['relaxation'])} moves"
            f"<br>{units.count(row['rounds'])} rounds{'' if reached else ', not reached'}"
            for _, row in dots.iterrows()
        ],
        hovertemplate="%{customdata}<extra></extra>",
        meta={"part": "dots" if reached else "missed", "name": dots["series"].iloc[0]},
    )
