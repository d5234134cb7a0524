"""Names at the ends of lines, in place of a legend."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from rayfed.report.figures.palette import LineStyle

GAP = 17  # pixels between two labels
DIRECT = 8  # most lines that are labelled at their ends
ROOM = (104, 250)  # least and most pixels at the right for the labels
_SHIFT = 6  # pixels between a line's end and its name
_CUTS = (28, 40)  # letters of names; more would leave a phone no plot
_LETTER = 8.2  # pixels of a letter, those of wide fonts too


def label_ends(
    figure: go.Figure,
    ends: Mapping[str, float],
    styles: Mapping[str, LineStyle],
) -> None:
    """Write each name at the end of its line, moved apart where lines end close together.

    Parameters
    ----------
    figure : Figure
        Gets the labels, by its y axis; beyond `DIRECT` lines a legend below instead.
    ends : mapping of str to float
        The last value of each line.
    styles : mapping of str to LineStyle
        Gives the colours.
    """
    if len(ends) > DIRECT:
        _legend(figure)
        return
    axis = figure.layout.yaxis
    if axis.range is None:
        return
    log = axis.type == "log"
    longest = max((len(plain(name)) for name in ends), default=0)
    figure.update_layout(margin_r=min(max(ROOM[0], 16 + _LETTER * longest), ROOM[1]))
    for name, value in ends.items():
        if not log or value > 0:
            figure.add_annotation(
                name=name,
                xref="paper",
                x=1,
                xanchor="left",
                xshift=_SHIFT,
                y=math.log10(value) if log else value,
                text=plain(name),
                showarrow=False,
                font={"color": styles[name].light},
            )
    _place(figure, list(axis.range))


def end_labels(figure: go.Figure) -> list[go.layout.Annotation]:
    """Return the names at the ends of lines."""
    return [
        label
        for label in figure.layout.annotations
        if label.name and label.xref == "paper" and label.xshift == _SHIFT
    ]


def place_labels(figure: go.Figure) -> None:
    """Move names at the ends of lines apart anew, after a figure got another height."""
    if end_labels(figure):
        _place(figure, list(figure.layout.yaxis.range))


def _place(figure: go.Figure, extent: list[float]) -> None:
    margin = figure.layout.margin
    room = figure.layout.height - margin.t - margin.b
    per_pixel = (extent[1] - extent[0]) / room
    labels = {label.name: label for label in end_labels(figure)}
    heights = {name: (label.y - extent[0]) / per_pixel for name, label in labels.items()}
    for name, height in spread(heights, GAP, room).items():
        labels[name].yshift = height - heights[name]


def drop_labels(figure: go.Figure) -> None:
    """Take the names at the ends of lines away, and the room for them."""
    labels = end_labels(figure)
    figure.layout.annotations = [a for a in figure.layout.annotations if a not in labels]
    figure.update_layout(margin_r=16)


def _legend(figure: go.Figure) -> None:
    figure.update_layout(
        showlegend=True, margin_b=110, legend={"orientation": "h", "y": -0.2, "itemclick": False}
    )
    figure.for_each_trace(lambda trace: trace.update(showlegend=trace.meta["part"] == "mean"))


def spread(heights: Mapping[str, float], gap: float, room: float) -> dict[str, float]:
    """Move heights (pixels) apart so that neighbours keep a gap, each as little as needed.

    Examples
    --------
    >>> spread({"a": 100.0, "b": 104.0, "c": 300.0}, 20, 400)
    {'a': 92.0, 'b': 112.0, 'c': 300.0}
    """
    blocks: list[tuple[list[str], float]] = []
    for name in sorted(heights, key=lambda n: heights[n]):
        names, middle = [name], heights[name]
        while blocks and middle - blocks[-1][1] < gap * (len(names) + len(blocks[-1][0])) / 2:
            below, other = blocks.pop()
            middle = (other * len(below) + middle * len(names)) / (len(below) + len(names))
            names = below + names
        half = gap * (len(names) - 1) / 2
        blocks.append((names, min(max(middle, half), room - half)))
    return {
        name: middle + gap * (place - (len(names) - 1) / 2)
        for names, middle in blocks
        for place, name in enumerate(names)
    }


def plain(text: str, most: int = 28) -> str:
    """Return a user's text for a figure, where ``<`` would start markup, cut to a length.

    It is cut in the middle, because what tells long names apart often comes last.
    """
    head = most // 2
    cut = text if len(text) <= most else f"{text[: head - 1]}…{text[head - most :]}"
    return cut.replace("&", "&amp;").replace("<", "&lt;")


def distinct(names: Sequence[str]) -> list[str]:
    """Return names as `plain`, cut to 40 letters where two different ones would else read alike.

    Examples
    --------
    >>> distinct([f"encoder.blocks.{k}.attention.weight" for k in (3, 4)])[1]
    'encoder.blocks.4.attention.weight'
    """
    short, long = ([plain(name, most) for name in names] for most in _CUTS)
    return long if len({*short}) < len({*long}) else short
