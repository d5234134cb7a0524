"""Rows with a dot for each algorithm."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from rayfed.report.figures import marks
from rayfed.report.figures.labels import plain
from rayfed.report.figures.style import algorithm_styles, canvas
from rayfed.report.read.results import Results

_ROW = 22  # pixels
_SYMBOLS = ("circle", "diamond", "square", "triangle-up", "x", "cross", "star")


def dots(results: Results, values: pd.DataFrame, number: str) -> go.Figure:
    """Return a figure with a row for each line of a table, and its columns as dots."""
    names = [plain(str(row)) for row in values.index]
    figure = canvas(64 + _ROW * max(len(names), 4), hovermode="y unified")
    styles = algorithm_styles(results)
    for place, name in enumerate(map(str, values.columns)):
        marker = {"color": styles[name].light, "symbol": _SYMBOLS[place % len(_SYMBOLS)], "size": 9}
        marks.dots(
            figure, "dots", values[name].to_numpy(), names, marker, of=name, name=plain(name),
            hovertemplate=number,
        )  # fmt: skip
    legend = {"orientation": "h", "y": 1.0, "yanchor": "bottom"}
    figure.update_layout(showlegend=len(values.columns) > 1, legend=legend)
    marks.rows_down(figure, names)
    return figure.update_yaxes(autorange="reversed", range=None, showgrid=None)
