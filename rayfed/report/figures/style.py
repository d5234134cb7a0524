"""The house style of figures: fonts, faint grids, axes, and the colours of a study."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.core.arrays import Floats
from rayfed.core.columns import Column
from rayfed.report.figures.palette import LIGHT, LineStyle, clear, line_styles
from rayfed.report.read.curves import ENERGY, Axis, clocks, stopped_at
from rayfed.report.read.results import Results, RunRecord, per_results
from rayfed.report.read.units import number

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif"
FONT_SIZE = 13
POWER_SIZE = 10.5
_TITLE = 24  # pixels
NAMED = 30  # clients up to which each is named
_SPAN = 10.0  # ratio of the largest to the smallest value from which a log axis helps


def algorithm_styles(results: Results) -> dict[str, LineStyle]:
    """Return the style of each algorithm of a study, the same in every figure and table.

    Where many settings were swept, and in all cases, those of one algorithm are drawn alike.
    """
    own = {run.name: run.label if results.order else run.name for run in results.runs_found}
    families = results.families or own
    grey = {families[name] for name in results.baselines}
    every = (*results.order, *(families[name] for name in results.names))
    styles = line_styles(dict.fromkeys(every), grey)
    return {name: styles[families[name]] for name in results.names}


def canvas(height: int, **layout: Any) -> go.Figure:
    """Return an empty figure in the house style, `height` pixels high."""
    # Plotly checks a whole layout at once much faster than many updates of it.
    defaults = {
        "template": "none",
        "height": height,
        "margin": {"l": 64, "r": 16, "t": 12, "b": 52},
        "font": {"family": FONT, "size": FONT_SIZE, "color": LIGHT["ink"]},
        "paper_bgcolor": LIGHT["background"],
        "plot_bgcolor": LIGHT["background"],
        "showlegend": False,
        "hoverlabel": {
            "bgcolor": LIGHT["background"],
            "bordercolor": LIGHT["grid"],
            "font": {"family": FONT, "size": FONT_SIZE, "color": LIGHT["ink"]},
            "align": "left",
            "namelength": -1,
        },
        "xaxis": _axis(),
        "yaxis": _axis(),
    }
    return go.Figure(layout=defaults | layout)


def titled(figure: go.Figure, text: str) -> go.Figure:
    """Write a title above a figure, which grows by its height."""
    title = {"text": text, "x": 0, "xref": "paper", "y": 1, "yref": "paper", "yanchor": "bottom"}
    title |= {"font": {"size": FONT_SIZE}, "pad": {"b": 6}}
    height, top = figure.layout.height + _TITLE, figure.layout.margin.t + _TITLE
    return figure.update_layout(title=title, height=height, margin_t=top)


def _axis() -> dict[str, Any]:
    return {
        "gridcolor": LIGHT["grid"],
        "zeroline": False,
        "showline": False,
        "ticks": "",
        "ticklabelstandoff": 4,
        "nticks": 7,
        "tickfont": {"color": LIGHT["muted"]},
        "title": {"font": {"color": LIGHT["muted"], "size": FONT_SIZE}, "standoff": 10},
        "automargin": False,
        "exponentformat": "power",
        "spikecolor": LIGHT["strip"],
        "spikethickness": 1,
        "spikedash": "solid",
        "minexponent": 4,
    }


def scale(axis: Axis, largest: float) -> dict[str, Any]:
    """Return the title of a clock with its unit, and the seconds of one unit."""
    unit, worth = axis.unit(largest)
    title = f"{axis.title} ({unit})" if unit else axis.title
    return {"title": title, "worth": worth, "unit": unit}


def _scaled(run: RunRecord) -> dict[str, float]:
    """Return the simulated seconds, bytes and energy of a run; empty without rounds."""
    if not run.length:
        return {}
    clocks = [name for name in ("time_s", "bytes_up", ENERGY) if name in run.history]
    return {name: float(np.nanmax(run.history[name])) for name in clocks}


@per_results
def x_scales(results: Results) -> dict[str, dict[str, Any]]:
    """Return the scale of every clock, chosen by the longest run."""
    largest = {}  # of those that have units
    ends = [run.cached("scales", partial(_scaled, run)) for run in results.runs_found]
    if any(len(end) for end in ends):
        largest = pd.DataFrame([end for end in ends if len(end)]).max().to_dict()
    return {name: scale(axis, largest.get(name, 0.0)) for name, axis in clocks(results).items()}


def spans_decades(columns: Sequence[Floats]) -> bool:
    """Return whether finite data are positive and span a factor of 10, so that a log axis helps."""
    values = np.concatenate([np.empty(0), *columns])
    values = values[np.isfinite(values)]
    return bool(len(values) and values.min() > 0 and values.max() / values.min() >= _SPAN)


_ROUNDING = 1e-12  # of values, between which it is no difference


def y_range(columns: Sequence[Floats], log: bool) -> list[float] | None:
    """Return an axis range around the data with a margin of 4 %; None without data.

    Values that differ by rounding alone get the range of equal ones: Plotly has no ticks for less.
    """
    values = np.concatenate([np.empty(0), *columns])
    values = values[np.isfinite(values)]
    values = np.log10(values[values > 0]) if log else values
    if not len(values):
        return None
    low, high = float(values.min()), float(values.max())
    apart, size = high - low, max(abs(low), abs(high))
    margin = 0.04 * (apart if apart > _ROUNDING * size else size or 1.0)
    return [low - margin, high + margin]


def log_ticks(extent: list[float] | None) -> dict[str, Any]:
    """Return the ticks of a log axis: 1, 2, 5 where it spans two decades or less, else powers."""
    decades = extent[1] - extent[0] if extent else 1.0
    if decades <= 2.2:
        return {"dtick": "D2", "tickformat": "~g", "tickfont_size": FONT_SIZE}
    # Powers are written a quarter larger than they are asked for.
    return {"dtick": max(1, math.ceil(decades / 7)), "tickformat": "", "tickfont_size": POWER_SIZE}


def fitted(title: str, values: Sequence[Floats], log: bool | None = None) -> dict[str, Any]:
    """Return an axis around data: its title, scale, range and, of a log axis, ticks.

    If `log` is None, it is logarithmic where that helps (`spans_decades`).
    """
    log = spans_decades(values) if log is None else log
    extent = y_range(values, log)
    axis = {"title_text": title, "type": "log" if log else "linear", "range": extent}
    return axis | (log_ticks(extent) if log else {})


def log_helps(column: Column, means: Sequence[Floats]) -> bool:
    """Return whether an axis of a column is logarithmic; accuracies are read between 0 and 1."""
    return "accuracy" not in column.name and spans_decades(means)


def column_axis(
    column: Column, means: Sequence[Floats], head: str = "", spread: Sequence[Floats] = ()
) -> dict[str, Any]:
    """Return an axis around values of a column and their spread; `log_helps` chooses its scale."""
    return fitted(f"{head}{column.label}", [*means, *spread], log_helps(column, means))


def end_axis(results: Results, column: str, values: Sequence[Floats]) -> dict[str, Any]:
    """Return an axis of last values, or of rounds where a value ends the runs."""
    if stopped_at(results, column) is None:
        return column_axis(results.column(column), values, "final ")
    return fitted(end_title(results, column), values)


def colorbar(title: str) -> dict[str, Any]:
    """Return the scale of a heat map: slim, without a frame."""
    return {
        "title": {
            "text": title,
            "side": "right",
            "font": {"size": FONT_SIZE, "color": LIGHT["muted"]},
        },
        "tickfont": {"color": LIGHT["muted"]},
        "thickness": 10,
        "len": 0.8,
        "outlinewidth": 0,
        "ticks": "",
        "nticks": 5,
        "exponentformat": "power",  # not "100n" for 1e-7
    }


def powers(low: float, high: float) -> dict[str, Any]:
    """Return the ticks of a colour scale of logarithms."""
    first, last = np.ceil(np.log10(low)), np.floor(np.log10(high))
    step = max(1, int(np.ceil((last - first) / 5)))
    exponents = np.arange(first, last + 1, step)
    return {"tickvals": exponents, "ticktext": [number(10.0**e) for e in exponents]}


def fade(style: LineStyle) -> list[list[Any]]:
    """Return a sequential scale in the algorithm's one hue, from the background."""
    return [[0.0, LIGHT["background"]], [1.0, style.light]]


def veil(colour: str) -> list[list[Any]]:
    """Return a sequential scale from nothing to a colour, to be laid over something else."""
    return [[0.0, clear(colour)], [1.0, colour]]


def line(style: LineStyle, width: float = 2.0) -> Mapping[str, Any]:
    """Return the line style of an algorithm."""
    return {"color": style.light, "dash": style.dash, "width": width}


def end_title(results: Results, column: str) -> str:
    """Return the title of an axis of last values, or of rounds where a value ends the runs."""
    shown, goal = results.column(column), stopped_at(results, column)
    if goal is None:
        return f"final {shown.label}"
    return f"rounds to {shown.title} {number(goal)}"
