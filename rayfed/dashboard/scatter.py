"""The scatter plot of the overview: a dot for each run, over any two columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import plotly.graph_objects as go

from rayfed.dashboard.overview import TIMES, Overview, RunRow
from rayfed.report.figures import marks
from rayfed.report.figures.labels import plain
from rayfed.report.figures.palette import LIGHT, LineStyle, line_styles, to_dark
from rayfed.report.figures.style import canvas, fitted
from rayfed.report.panels.base import figure_json

HEIGHT = 300
SYMBOLS = {
    "circle": "●", "diamond": "◆", "square": "■", "triangle-up": "▲", "triangle-down": "▼",
    "star": "★",
}  # fmt: skip
"""Symbols of dots, as Plotly names them and as a key shows them."""
MOST_KEYS = 12


class Scatter:
    """Dots of an overview, coloured by its groups or else by algorithm.

    Parameters
    ----------
    overview : Overview
    """

    HEIGHT = HEIGHT

    def __init__(self, overview: Overview) -> None:
        self.overview = overview
        self.groups = overview.groups if overview.layout.group else overview.by("algorithm")
        self.styles: dict[str, LineStyle] = line_styles(dict.fromkeys(g.title for g in self.groups))

    @property
    def key(self) -> list[tuple[int, str, str]]:
        """The place of the colour, the symbol and the text of each group; empty for one group."""
        entries = [(k, _symbol(k)[1], title) for k, title in enumerate(self.styles)]
        return entries[:MOST_KEYS] if len(entries) > 1 else []

    @property
    def more(self) -> int:
        """Number of groups beyond those of the key."""
        return max(0, len(self.styles) - MOST_KEYS)

    @cached_property
    def payload(self) -> dict[str, Any]:
        """The figure as JSON values, and the dark counterparts of its colours."""
        return {"figure": figure_json(self.figure()), "dark": to_dark(self.styles)}

    def figure(self) -> go.Figure:
        """Return the figure: a trace for each group, with the keys of runs as ``customdata``."""
        names = (self.overview.x, self.overview.y)
        placed = {title: list[RunRow]() for title in self.styles}
        for group in self.groups:
            placed[group.title] += [
                row for row in group.rows if all(row.cell(name).key != "" for name in names)
            ]
        axes = [_Axis.of(name, [*chain(*placed.values())]) for name in names]
        figure = canvas(HEIGHT, hovermode="closest")
        figure.update_layout(xaxis=axes[0].layout, yaxis=axes[1].layout)
        for place, (title, style) in enumerate(self.styles.items()):
            x, y = ([axis.value(row) for row in placed[title]] for axis in axes)
            rim = {"width": 1, "color": LIGHT["background"]}
            marker = {"size": 9, "color": style.light, "symbol": _symbol(place)[0], "line": rim}
            about = {"text": [_named(row) for row in placed[title]]}
            about["customdata"] = [row.run.key for row in placed[title]]
            marks.dots(figure, "runs", x, y, marker, "%{text}<br>%{x}, %{y}", **about)
        return figure


@dataclass(frozen=True)
class _Axis:
    """An axis over a column.

    Parameters
    ----------
    column : str
    kind : "linear", "date" or "category"
    layout : mapping
        As Plotly takes it.
    """

    column: str
    kind: str
    layout: Mapping[str, Any]

    @classmethod
    def of(cls, column: str, rows: Sequence[RunRow]) -> _Axis:
        keys = [row.cell(column).key for row in rows]
        title = plain(f"{column} (s)" if column in TIMES else column, 40)
        if all(isinstance(key, float | int) for key in keys):
            return cls(column, "linear", fitted(title, [np.array(keys, np.float64)]))
        kind = "date" if column == "started" else "category"
        return cls(column, kind, {"title_text": title, "type": kind, "automargin": True})

    def value(self, row: RunRow) -> float | str:
        cell = row.cell(self.column)
        return plain(cell.text) if self.kind == "category" else cell.key


def _named(row: RunRow) -> str:
    run = row.run
    return plain(" ".join(filter(None, (run.label, run.setting, f"seed {run.info['seed']}"))), 80)


def _symbol(place: int) -> tuple[str, str]:
    return list(SYMBOLS.items())[place % len(SYMBOLS)]
