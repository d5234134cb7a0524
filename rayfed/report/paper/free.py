"""Places of a paper's figure in which a text covers no line and no dot."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import plotly.graph_objects as go

from rayfed.core.arrays import Floats

_LETTER = 7.0  # pixels of a letter, of wide fonts too
_HEIGHT = 18.0  # pixels of a text with its distance to the line that it names
_DOT = 6.0  # pixels of the half of a dot with its rim
_PLACES = tuple(product(("start", "end", "middle"), ("top", "bottom")))


def place_targets(figure: go.Figure) -> None:
    """Write the name of each target where it covers the fewest lines, bands and dots.

    In a figure of several axes it is the value alone where the name is free nowhere.

    Parameters
    ----------
    figure : Figure
        With its width and height; changed in place.
    """
    several = len(list(figure.select_xaxes())) > 1
    for shape in figure.layout.shapes:
        if shape.type == "line" and shape.label.texttemplate and shape.y0 is not None:
            axes = _Axes(figure, shape)
            texts = (f"target {shape.y0:.6g}", f"{shape.y0:.6g}")[: 1 + several]
            options = [
                (axes.covered(text, *place), k, place)
                for k, text in enumerate(texts)
                for place in ((shape.label.textposition, shape.label.yanchor), *_PLACES)
            ]
            free = [option for option in options if not option[0]]
            _, k, (position, anchor) = free[0] if free else min(options)
            template = "%{y0:.6~g}" if k else shape.label.texttemplate
            shape.label.update(texttemplate=template, textposition=position, yanchor=anchor)


class _Axes:
    """The axes of a target's line, in pixels from their lower left corner.

    Parameters
    ----------
    figure : Figure
    shape : Shape
        The line; across all axes or across a pair of several.
    """

    def __init__(self, figure: go.Figure, shape: Any) -> None:
        names = shape.xref.removesuffix(" domain").replace("paper", "x"), shape.yref or "y"
        self._layouts = [figure.layout[f"{name[0]}axis{name[1:]}"] for name in names]
        margin = figure.layout.margin
        rooms = (
            figure.layout.width - margin.l - margin.r,
            figure.layout.height - margin.t - margin.b,
        )
        self._sizes = [
            room * float(np.diff(axis.domain or (0, 1))[0])
            for room, axis in zip(rooms, self._layouts, strict=True)
        ]
        self._line = float(self._pixels(1, [shape.y0])[0])
        self._parts = list(self._drawn(figure, names))

    def covered(self, text: str, position: str, anchor: str) -> float:
        """Return the pixels of a text's width at which something lies under it."""
        (width, height), wide = self._sizes, _LETTER * len(text)
        left = {"start": 0.0, "middle": (width - wide) / 2, "end": width - wide}[position]
        low = self._line if anchor == "bottom" else self._line - _HEIGHT
        if low < 0 or low + _HEIGHT > height:
            return np.inf
        total = 0.0
        for start, end, bottom, top in self._parts:
            over = np.minimum(end, left + wide) - np.maximum(start, left)
            hit = (over > 0) & (bottom < low + _HEIGHT) & (top > low)
            total += float(over[hit].sum())
        return total

    def _pixels(self, place: int, values: Any) -> Floats:
        axis, held = self._layouts[place], np.asarray(values, np.float64)
        low, high = axis.range
        if axis.type == "log":
            with np.errstate(divide="ignore", invalid="ignore"):
                held = np.log10(held)
        found: Floats = (held - low) / (high - low) * self._sizes[place]
        return found

    def _drawn(
        self, figure: go.Figure, names: tuple[str, str]
    ) -> Iterator[tuple[Floats, Floats, Floats, Floats]]:
        """Yield the left, right, lower and upper ends of the pieces of each trace."""
        for trace in figure.data:
            shown = trace.visible is not False and trace.x is not None and len(trace.x)
            if not shown or (trace.xaxis or "x", trace.yaxis or "y") != names:
                continue
            x, y = self._pixels(0, trace.x), self._pixels(1, trace.y)
            if trace.mode == "markers":
                yield x - _DOT, x + _DOT, y - _DOT, y + _DOT
                continue
            tops, bottoms = y, y
            if trace.fill == "toself":  # there along one edge of the band, and back along the other
                x, tops, bottoms = x[: len(x) // 2], y[: len(y) // 2], y[len(y) // 2 :][::-1]
            low, high = np.fmin(bottoms[1:], bottoms[:-1]), np.fmax(tops[1:], tops[:-1])
            yield x[:-1], x[1:], low, high
