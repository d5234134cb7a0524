"""Convergence: means over seeds with a band, on any clock, with a target and its crossings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.core.arrays import Floats
from rayfed.core.columns import Column
from rayfed.report.figures.labels import label_ends
from rayfed.report.figures.palette import LIGHT, Ink
from rayfed.report.figures.style import (
    canvas,
    line,
    log_ticks,
    spans_decades,
    study_inks,
    x_scales,
    y_range,
)
from rayfed.report.read.results import Results, Run
from rayfed.report.read.series import (
    X_AXES,
    Curve,
    crossing,
    curve,
    default_target,
    history,
    points,
    thin,
    y_columns,
)
from rayfed.report.read.units import short_number

HEIGHT = 440
_FEW_ROUNDS = 7  # no ticks between rounds where there are so few
_FEW_SEEDS, _FEW_NAMES = 5, 4  # beyond these, single seeds are a tangle


def convergence(
    results: Results,
    x: str = "round",
    y: str = "loss",
    log: bool | None = None,
    target: float | None = None,
) -> go.Figure:
    """Draw how a column falls or rises, mean over seeds and band of one standard deviation.

    The band goes no further than the seeds. Where these are few they are drawn too, faintly.

    Parameters
    ----------
    results : Results
        A result folder.
    x : str
        The clock: ``round``, ``time_s``, ``bytes_up``, ``updates`` or ``communications``.
    y : str
        Any numeric column of the rounds.
    log : bool, optional
        Logarithmic y axis. If None: where all values are positive and span a factor of 10.
    target : float, optional
        Where the target line lies. If None: `series.default_target`.

    Returns
    -------
    Figure
        Every trace names its algorithm and its part in ``meta``.
    """
    worth = x_scales(results)[x]
    target = default_target(results, y) if target is None else target
    histories = {n: [history(run) for run in results.usable(n)] for n in results.names}
    curves = {name: curve(frames, x, y) for name, frames in histories.items()}
    faint = shows_seeds(results)
    drawn = {name: found for name, found in curves.items() if len(found.x)}
    end = max((float(c.x[-1]) for c in drawn.values()), default=1.0) / worth["worth"]
    figure = canvas(HEIGHT, hovermode="x unified", hoverdistance=-1)
    look = study_inks(results)
    for name, found in curves.items():
        add_curve(figure, name, look[name], found, worth["worth"], end)
        for run in results.usable(name) if faint else ():
            single = curve([history(run)], x, y)
            add_seed(figure, run, look[name], single, worth["worth"], end)
    for name, frames in histories.items():
        places = _crossings(frames, results.column(y), target)
        at = [float(row[x]) / worth["worth"] for row in places]
        _add_crossings(figure, name, look[name], at, target, name not in results.baselines)
    # An algorithm of which every run failed has left any scale, so it sets none.
    scaled = [c for name, c in drawn.items() if name not in results.failed] or list(drawn.values())
    if log is None:  # an accuracy is read between 0 and 1
        log = "accuracy" not in y and spans_decades([c.mean for c in scaled])
    extent = y_range([part for c in scaled for part in (c.low, c.high)], log)
    _set_axes(figure, worth["title"], results.column(y).label, log, extent, end)
    reading = f"{X_AXES[x].title} %{{x:.4~g}} {worth['unit']}".strip()
    figure.update_layout(xaxis_unifiedhovertitle_text=reading)
    _add_target(figure, target)
    label_ends(figure, {n: float(c.mean[-1]) for n, c in drawn.items()}, look, extent, log)
    return figure


def shows_seeds(results: Results) -> bool:
    """Return whether single seeds are drawn: where they are several, but few enough to read."""
    most = max(len(results.usable(name)) for name in results.names)
    return 1 < most <= _FEW_SEEDS and len(results.names) <= _FEW_NAMES


def add_curve(
    figure: go.Figure, name: str, ink: Ink, found: Curve, worth: float, end: float
) -> None:
    """Add a mean line and its band."""
    x, mean, low, high = _level(found, worth, end)
    figure.add_scatter(
        x=np.concatenate([x, x[::-1]]),
        y=np.concatenate([high, low[::-1]]),
        fill="toself",
        mode="lines",
        fillcolor=ink.light,
        opacity=0.16,
        line={"width": 0, "color": ink.light},
        hoverinfo="skip",
        meta={"name": name, "part": "band"},
    )
    figure.add_scatter(
        x=x,
        y=mean,
        mode="markers" if len(x) == 1 else "lines",
        name=name,
        line=line(ink),
        hovertemplate="%{y:.3g}",
        meta={"name": name, "part": "mean"},
    )


def add_seed(figure: go.Figure, run: Run, ink: Ink, found: Curve, worth: float, end: float) -> None:
    """Add the faint line of one seed, below the means."""
    x, values, _, _ = _level(found, worth, end)
    figure.add_scatter(
        x=x,
        y=values,
        mode="lines",
        line={"color": ink.light, "width": 1},
        opacity=0.35,
        hoverinfo="skip",
        zorder=-1,
        meta={"name": run.name, "part": "seed", "seed": run.seed},
    )


def _level(found: Curve, worth: float, end: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Return a curve in the axis's unit; one whose clock stands still becomes a level line."""
    parts = (found.mean, found.low, found.high)
    if len(found.x) == 1:
        mean, low, high = (np.repeat(values, 2) for values in parts)
        return np.array([0.0, end]), mean, low, high
    return found.x / worth, *parts


def _crossings(frames: list[pd.DataFrame], y: Column, target: float | None) -> list[pd.Series]:
    """Return the first row of each run that is as good as the target, of those that have one."""
    if target is None:
        return []
    rows = [crossing(frame, y, target) for frame in frames if y.name in frame]
    return [row for row in rows if row is not None]


def _add_crossings(
    figure: go.Figure, name: str, ink: Ink, at: list[float], target: float | None, compete: bool
) -> None:
    figure.add_scatter(
        x=at if compete else [],
        y=[target] * len(at) if compete else [],
        mode="markers",
        marker={
            "symbol": "diamond",
            "size": 9,
            "color": ink.light,
            "line": {"color": LIGHT["background"], "width": 1.5},
        },
        cliponaxis=False,
        hoverinfo="skip",
        meta={"name": name, "part": "crossing"},
    )


def _set_axes(
    figure: go.Figure, x: str, y: str, log: bool, extent: list[float] | None, end: float
) -> None:
    figure.update_xaxes(title_text=x, range=[0, end], showgrid=False)
    if x == X_AXES["round"].title and end <= _FEW_ROUNDS:
        figure.update_xaxes(dtick=1)
    ticks = log_ticks(extent) if log else {}
    kind = "log" if log else "linear"
    figure.update_yaxes(title_text=y, type=kind, range=extent, **ticks)


def _add_target(figure: go.Figure, target: float | None) -> None:
    shape = {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "line": {"color": LIGHT["muted"], "width": 1.5, "dash": "2px,2px"},
    }
    # The page draws the line anew where it is moved to.
    figure.update_layout(meta={"target": shape})
    if target is not None:
        figure.add_shape(shape, y0=target, y1=target)


def page_data(results: Results, numbers: int = 400_000) -> dict[str, Any]:
    """Return what the page needs to draw any clock against any column.

    Parameters
    ----------
    results : Results
        A result folder.
    numbers : int
        About how many numbers may be stored; long runs are thinned to 200 to 2,000 rows each.

    Returns
    -------
    dict
        ``runs`` with the columns of each run, ``clocks`` and ``columns`` with their titles, and
        ``thinned``: to how many rounds the longest run was thinned, None if none was.
    """
    columns = y_columns(results)
    runs = [run for name in results.names for run in results.usable(name)]
    each = numbers // max(1, len(runs) * (len(columns) + len(X_AXES)))
    rows = int(np.clip(each, 200, 2000))
    scales = {x: scaled | {"plain": X_AXES[x].title} for x, scaled in x_scales(results).items()}
    longest = max((len(run.rounds) for run in runs), default=0)
    return {
        "thinned": rows if longest > rows else None,
        "clocks": scales,
        "columns": {
            name: _described(results.column(name)) | {"target": default_target(results, name)}
            for name in columns
        },
        "runs": [
            {
                "name": run.name,
                "seed": run.seed,
                "baseline": run.baseline,
                "data": _columns(history(run), [*scales, *columns], rows),
            }
            for run in runs
        ],
    }


def _described(column: Column) -> dict[str, Any]:
    return {"title": column.title, "label": column.label, "better": column.better}


def _columns(frame: Any, wanted: list[str], rows: int) -> dict[str, list[float | None]]:
    """Return columns as short lists; evaluated rows are kept before others."""
    evaluated, _ = points(frame, "round", "loss")
    if len(frame) > rows and len(evaluated):
        frame = frame[frame["round"].isin(evaluated)]
    short = frame.iloc[thin(np.arange(len(frame)), rows)]
    return {
        column: [short_number(value) for value in short[column]]
        for column in wanted
        if column in short
    }
