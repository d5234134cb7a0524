"""Charts shared by panels: bars with parts, rows of algorithms, and distributions as steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.core.arrays import Floats
from rayfed.report.figures import marks
from rayfed.report.figures.clients import PATTERNS
from rayfed.report.figures.labels import plain
from rayfed.report.figures.palette import LIGHT
from rayfed.report.figures.style import algorithm_styles, canvas, fitted, line
from rayfed.report.read.curves import thin
from rayfed.report.read.results import Results

_MARGINS = 64  # pixels
_STEPS_HEIGHT = 320  # pixels
_MOST = 400  # points of a line
_OUTSIDE = 0.005  # share of the values at each end for which the axis is not made longer


def rows(names: Sequence[str], height: int, **layout: Any) -> go.Figure:
    """Return a canvas for stacked bars with a row of ``height`` pixels for each name, down."""
    figure = canvas(_MARGINS + height * len(names), barmode="stack", hovermode="closest", **layout)
    return figure.update_yaxes(
        tickvals=list(range(len(names))), ticktext=[plain(name) for name in names],
        range=[len(names) - 0.5, -0.5], automargin=True, showgrid=False, nticks=None,
    )  # fmt: skip


def parts(
    figure: go.Figure, y: Any, lengths: pd.DataFrame, fills: Mapping[str, Any], hover: str,
    names: Mapping[str, str] | None = None, about: pd.DataFrame | None = None, **is_: Any,
) -> None:  # fmt: skip
    """Add a horizontal bar for each row of a table, in parts.

    Parameters
    ----------
    figure : Figure
    y : (n,) array
        Places of the bars.
    lengths : DataFrame (n, parts)
        In the unit of the x axis.
    fills : mapping of str to colour or colours
        The drawn columns in their order, each with one colour or with one a bar.
    hover : str
        A template; ``{part}`` stands for the name of the part.
    names : mapping of str to str, optional
        Names of the parts. If None: the columns.
    about : DataFrame (n, parts), optional
        ``customdata`` of the bars, for the hover.
    **is_
        All else, as Plotly takes it.
    """
    for part, fill in fills.items():
        name = part if names is None else names[part]
        marks.bars(
            figure, part, lengths[part].to_numpy(float).round(6), y, fill,
            hover.replace("{part}", name), PATTERNS.get(part, ""), orientation="h", name=name,
            customdata=None if about is None else about[part].tolist(), **is_,
        )  # fmt: skip


def ends(figure: go.Figure, y: Any, x: Any, texts: Sequence[str]) -> None:
    """Write texts behind the ends of bars."""
    font, shown = {"size": 12, "color": LIGHT["ink"]}, [f" {text}" for text in texts]
    marks.texts(figure, "text", x, y, shown, font, textposition="middle right")


def steps(
    results: Results, values: Mapping[str, Floats], log: bool, hover: str, title: str, of: str
) -> go.Figure:
    """Draw the empirical distribution of each algorithm's values, in percent.

    Parameters
    ----------
    results : Results
        A result folder, for the styles.
    values : mapping of str to (n,) array
        Sorted, by algorithm.
    log : bool
        Whether the axis of values is logarithmic.
    hover, title, of : str
        The text of a hover, the title of the axis of values, and the counted things.
    """
    styles = algorithm_styles(results)
    figure = canvas(_STEPS_HEIGHT, hovermode="closest", dragmode="zoom")
    for name, sorted_ in values.items():
        at = thin(np.arange(len(sorted_)), _MOST)
        # The line begins on the ground, at the least value.
        x = np.concatenate([sorted_[:1], sorted_[at]]).round(6)
        y = np.concatenate([[0.0], 100 * (at + 1) / len(sorted_)]).round(3)
        marks.lines(
            figure, "line", x, y, {**line(styles[name]), "shape": "hv"},
            f"{plain(name)}: {hover}", of=name, name=plain(name),
        )  # fmt: skip
    figure.update_xaxes(fitted(title, [_most(part, log) for part in values.values()], log))
    what = f"share of {of} (%)"
    return figure.update_yaxes(title_text=what, range=[0, 102], tickvals=[0, 25, 50, 75, 100])


def _most(values: Floats, log: bool) -> Floats:
    """Return the least and the largest of sorted values, but for half a percent at each end."""
    shown = values[values > 0] if log else values
    low = np.quantile(shown, _OUTSIDE, method="lower")
    return np.array([low, np.quantile(shown, 1 - _OUTSIDE, method="higher")])
