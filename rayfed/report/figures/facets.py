"""Several figures as one: small axes side by side, on the same scales where these are alike."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import wrap
from typing import Any

import plotly.graph_objects as go

from rayfed.report.figures.labels import end_labels
from rayfed.report.figures.style import canvas

ACROSS = 3
"""Most axes in a row."""
_ROW, _HEAD, _FOOT = 270, 26, 60  # pixels: of a row, of the case above its axes, of their ticks
_SIDE, _GAP = 64, 44  # at the left of the first axes, and between two, in 1/1000 of the width
_BARS = ("barmode", "bargap", "uniformtext")
_LETTERS = 96  # of the titles below a row of axes
_OWN_GAP = 112  # between two with tick labels of their own, in 1/1000 of the width


def side_by_side(figures: Mapping[str, go.Figure]) -> go.Figure:
    """Return figures as one, with one legend in place of labels at line ends.

    Axes with the same title and type have the same range.

    Parameters
    ----------
    figures : mapping of str to Figure
        By heading; each `is_panel`.
    """
    made, named = canvas(_ROW), set[tuple[Any, str]]()
    drawn = list(figures.values())
    for place, figure in enumerate(drawn):
        x, y = axis_names(place)
        for trace in figure.data:
            held = trace.to_plotly_json() | {"xaxis": x, "yaxis": y}
            name = "" if held["meta"]["part"] == "seed" else held.get("name", "")
            of = held["meta"].get("name")  # two names may be cut to the same text
            first = name != "" and (of, name) not in named
            named.add((of, name))
            made.add_trace(held | {"showlegend": first, "legendgroup": of})
        for shape in figure.layout.shapes:
            made.add_shape(_moved(shape, x, y))
        layout = figure.layout.to_plotly_json()
        made.update_layout({key: layout[key] for key in _BARS if key in layout})
        labels = end_labels(figure)
        for note in figure.layout.annotations:
            if note not in labels:
                made.add_annotation(_moved(note, x, y))
        for key, axis, other in (("xaxis", x, y), ("yaxis", y, x)):
            held = figure.layout[key].to_plotly_json() | {"anchor": other}
            alike = [one.layout[key].range for one in drawn if _alike(one, figure, key)]
            held["range"] = _common(alike)
            made.update_layout({f"{key}{axis[1:]}": held})
    for heading in figures:
        made.add_annotation(
            text=heading, name="facet", showarrow=False, xref="paper", yref="paper",
            xanchor="left", yanchor="bottom",
        )  # fmt: skip
    own = not all(_alike(one, drawn[0], "yaxis") for one in drawn)
    made.update_layout(meta={"facets": len(drawn), "own": own}, showlegend=True)
    return arrange(made, ACROSS)


def is_panel(figure: go.Figure) -> bool:
    """Return whether a figure is lines, dots or bars on one pair of axes."""
    axes = [key for key in figure.layout.to_plotly_json() if key[1:].startswith("axis")]
    return len(axes) == 2 and {trace.type for trace in figure.data} <= {"scatter", "bar"}


def _moved(item: Any, x: str, y: str) -> dict[str, Any]:
    """Return a shape or an annotation on other axes."""
    held: dict[str, Any] = item.to_plotly_json()
    paper = {key for key in ("xref", "yref") if held.get(key) == "paper"}
    refs = {"xref": x, "yref": y}
    return held | {key: f"{axis} domain" if key in paper else axis for key, axis in refs.items()}


def _alike(one: go.Figure, other: go.Figure, key: str) -> bool:
    """Return whether the x or y axes of two figures have the same title and type."""
    axes = one.layout[key], other.layout[key]
    return len({(axis.title.text, axis.type) for axis in axes}) == 1


def arrange(figure: go.Figure, across: int) -> go.Figure:
    """Place the axes of a figure of several, so many in a row; nothing else is changed."""
    meta = figure.layout.meta or {}
    count, own = meta.get("facets", 0), meta.get("own", False)
    if not count:
        return figure
    gap = (_OWN_GAP if own else _GAP) / 1000
    across = min(across, count)
    rows = -(-count // across)
    height, wide = rows * _ROW, (1 - (across - 1) * gap) / across
    for place in range(count):
        row, column = divmod(place, across)
        left = column * (wide + gap)
        x = [left, min(1.0, left + wide)]
        top = 1 - (row * _ROW + _HEAD) / height
        y = [1 - ((row + 1) * _ROW - (_FOOT if row + 1 < rows else 0)) / height, top]
        first, second = axis_names(place)
        below = figure.layout[f"xaxis{first[1:]}"]
        title = (below.title.text or "").replace("<br>", " ")
        below.update(domain=x, title_text="<br>".join(wrap(title, _LETTERS // max(2, across))))
        axis = figure.layout[f"yaxis{second[1:]}"]
        axis.update(domain=y, showticklabels=own or not column)
        if column and not own:
            axis.title.text = ""
        label = [one for one in figure.layout.annotations if one.name == "facet"][place]
        label.update(x=x[0], y=top)
    legend = {"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom", "itemclick": False}
    margin = {"l": _SIDE, "r": 16, "t": 40, "b": 68}
    return figure.update_layout(height=height + 108, legend=legend, margin=margin)


def axis_names(place: int) -> tuple[str, str]:
    """Return the names of the axes at a place of a figure of several."""
    number = "" if not place else str(place + 1)
    return f"x{number}", f"y{number}"


def _common(ranges: list[Any]) -> list[float] | None:
    """Return a range around several; None where there is none."""
    known = [held for held in ranges if held is not None]
    return [min(held[0] for held in known), max(held[1] for held in known)] if known else None
