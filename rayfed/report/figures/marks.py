"""Marks: lines, dots, bars, cells and texts in the house style, each a named part of its figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from rayfed.report.figures.palette import LIGHT

NO_LINE = {"width": 0}


class NothingToDraw(ValueError):
    """The results do not have what a figure shows."""


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
    getattr(figure, f"add_{kind}")(**{"meta": about | {"part": part}, **is_})


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
        marker["pattern"] = {
            "shape": shape, "fillmode": "overlay", "size": 6, "solidity": 0.25,
            "fgcolor": LIGHT["background"],
        }  # fmt: skip
    mark(figure, "bar", part, hover, **{"x": x, "y": y, "marker": marker, **is_})


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


def rows_down(figure: go.Figure, names: Sequence[str]) -> None:
    """Let the y axis be rows with names, the first at the top."""
    figure.update_yaxes(
        type="category", categoryorder="array", categoryarray=names, dtick=1, nticks=None,
        range=[len(names) - 0.4, -0.6], automargin=True, showgrid=False,
    )  # fmt: skip
