"""Figures of several cases as one: small axes side by side, on the same scales."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go

from rayfed.report.figures.style import canvas

ACROSS = 3
"""Most axes in a row."""
_ROW, _HEAD, _FOOT = 270, 26, 60  # pixels: of a row, of the case above its axes, of their ticks
_SIDE, _GAP = 64, 22  # at the left of the first axes, and between two


def side_by_side(figures: Mapping[str, go.Figure]) -> go.Figure:
    """Return figures of the same kind as one, with a legend in place of labels at line ends.

    Parameters
    ----------
    figures : mapping of str to Figure
        By case; each with one pair of axes.
    """
    made, named = canvas(_ROW), set[str]()
    drawn = list(figures.values())
    same = len({figure.layout.yaxis.type for figure in drawn}) == 1
    for place, figure in enumerate(drawn):
        x, y = axis_names(place)
        for trace in figure.data:
            held = trace.to_plotly_json() | {"xaxis": x, "yaxis": y}
            first = held["meta"]["part"] == "mean" and held.get("name") not in named
            named |= {held["name"]} if first else set()
            made.add_trace(held | {"showlegend": first, "legendgroup": held["meta"].get("name")})
        for shape in figure.layout.shapes:
            made.add_shape(shape.to_plotly_json() | {"xref": f"{x} domain", "yref": y})
        for key, axis, other in (("xaxis", x, y), ("yaxis", y, x)):
            held = figure.layout[key].to_plotly_json() | {"anchor": other}
            if key == "xaxis" or same:
                held["range"] = _common([one.layout[key].range for one in drawn])
            made.update_layout({f"{key}{axis[1:]}": held})
    for case in figures:
        made.add_annotation(
            text=case, name="facet", showarrow=False, xref="paper", yref="paper",
            xanchor="left", yanchor="bottom",
        )  # fmt: skip
    made.update_layout(meta={"facets": len(drawn)}, showlegend=True)
    return arrange(made, ACROSS)


def arrange(figure: go.Figure, across: int) -> go.Figure:
    """Place the axes of a figure of several cases, so many in a row; nothing else is changed."""
    count = (figure.layout.meta or {}).get("facets", 0)
    if not count:
        return figure
    across = min(across, count)
    rows = -(-count // across)
    height = rows * _ROW
    for place in range(count):
        row, column = divmod(place, across)
        left = column / across + (0.0 if not column else _GAP / 1000)
        x = [left, (column + 1) / across - (_GAP / 1000 if column + 1 < across else 0.0)]
        top = 1 - (row * _ROW + _HEAD) / height
        y = [1 - ((row + 1) * _ROW - (_FOOT if row + 1 < rows else 0)) / height, top]
        first, second = axis_names(place)
        figure.layout[f"xaxis{first[1:]}"].domain = x
        axis = figure.layout[f"yaxis{second[1:]}"]
        axis.update(domain=y, showticklabels=not column, title_text=axis.title.text)
        if column:
            axis.title.text = ""
        label = [one for one in figure.layout.annotations if one.name == "facet"][place]
        label.update(x=x[0], y=top)
    legend = {"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom", "itemclick": False}
    margin = {"l": _SIDE, "r": 16, "t": 40, "b": 52}
    return figure.update_layout(height=height + 92, legend=legend, margin=margin)


def axis_names(place: int) -> tuple[str, str]:
    """Return the names of the axes at a place of a figure of several."""
    number = "" if not place else str(place + 1)
    return f"x{number}", f"y{number}"


def _common(ranges: list[Any]) -> list[float] | None:
    """Return a range around several; None where there is none."""
    known = [held for held in ranges if held is not None]
    return [min(held[0] for held in known), max(held[1] for held in known)] if known else None
