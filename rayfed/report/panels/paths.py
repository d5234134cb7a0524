"""Paths of the server's model and of local models over the contours of F, of two parameters."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import plotly.graph_objects as go

from rayfed.core.arrays import Floats
from rayfed.report.figures import marks
from rayfed.report.figures.marks import NothingToDraw
from rayfed.report.figures.palette import LIGHT
from rayfed.report.figures.style import algorithm_styles, canvas
from rayfed.report.panels.base import RunPanel, Section
from rayfed.report.panels.phrases import quoted
from rayfed.report.read import units
from rayfed.report.read.recorded import Pulls
from rayfed.report.read.results import Results, RunRecord

HEIGHT = 520
_LEVELS = 14
_DRAWN = 12  # rounds whose local work is drawn


def paths(results: Results, name: str, seed: int) -> go.Figure:
    """Draw where a model of two numbers went, and where clients would have taken it.

    Contours are those of F, at equal steps of log(F - least F), so that they are dense where it is
    flat, too. Thin lines lead from the server's model to where the local work of a client ends, in
    a dozen rounds; that they end at different places is the drift.

    Parameters
    ----------
    results : Results
        A result folder.
    name : str
        The algorithm.
    seed : int
        The seed; its run must have recorded the measure ``path``.

    Raises
    ------
    ValueError
        If the run has no map of F.
    """
    run = results.run(name, seed)
    pulls = run.pulls
    if pulls is None or not pulls.map.size:
        text = f"the run of {name}, seed {seed}, has no map of F"
        raise NothingToDraw(f"{text}; it takes the measure path, and a model of two numbers")
    style = algorithm_styles(results)[name]
    figure = canvas(HEIGHT, hovermode="closest")
    _contours(figure, pulls)
    drawn = np.unique(np.geomspace(1, len(pulls.rounds), _DRAWN).round().astype(int)) - 1
    thin = {"color": LIGHT["muted"], "width": 1}
    for place, client in enumerate(pulls.clients.tolist()):
        ends = pulls.ends[drawn, place]
        gaps = np.full_like(ends, np.nan)
        x, y = np.stack([pulls.starts[drawn], ends, gaps], axis=1).reshape(-1, 2).T
        marks.lines(figure, "pull", x, y, thin, opacity=0.6)
        customdata = np.stack([np.full(len(drawn), client), pulls.rounds[drawn] + 1], axis=1)
        marks.dots(
            figure, "end", ends[:, 0], ends[:, 1], {"color": LIGHT["muted"], "size": 5},
            "client %{customdata[0]} in round %{customdata[1]}: %{x:.4~g}, %{y:.4~g}",
            customdata=customdata,
        )  # fmt: skip
    at = _server(run)
    hover = "round %{customdata}: %{x:.4~g}, %{y:.4~g}"
    marks.lines(
        figure, "server", at[:, 1], at[:, 2], {"color": style.light, "width": 2.5}, hover,
        mode="lines+markers", marker={"size": 6, "color": style.light}, customdata=at[:, 0],
    )  # fmt: skip
    for axis, numbers, title in (("xaxis", 0, "first"), ("yaxis", 1, "second")):
        span = {"range": pulls.box[:, numbers].tolist(), "showgrid": False, "constrain": "domain"}
        figure.update_layout({axis: {"title": {"text": f"{title} parameter"}, **span}})
    return figure.update_yaxes(scaleanchor="x", scaleratio=1)


def _contours(figure: go.Figure, pulls: Pulls) -> None:
    """Add the lines of equal F, labelled by F, at equal steps of the logarithm of its gap."""
    least, side = float(np.nanmin(pulls.map)), len(pulls.map)
    across, up = (np.linspace(pulls.box[0, k], pulls.box[1, k], side) for k in (0, 1))
    gaps = pulls.map - least
    floor = float(np.quantile(gaps[gaps > 0], 0.01)) if (gaps > 0).any() else 1.0
    heights = np.log10(gaps + floor)
    low, high = float(heights.min()), float(heights.max())
    marks.mark(
        figure, "contour", "F", "F = %{customdata:.4~g}", x=across, y=up, z=heights,
        customdata=pulls.map, showscale=False, line={"width": 1, "smoothing": 1},
        colorscale=[[0, LIGHT["strip"]], [1, LIGHT["strip"]]],
        contours={
            "coloring": "lines", "start": low, "end": high,
            "size": (high - low) / _LEVELS or 1.0,
        },
    )  # fmt: skip


def _server(run: RunRecord) -> Floats:
    """Return round and model (n, 3) of the evaluated rows of a run."""
    rows = run.rounds[["round", "model_0", "model_1"]].dropna()
    return rows.to_numpy(np.float64)


def title(run: RunRecord) -> str:
    """Return how far apart local models end at first and last, and where the server's model is."""
    pulls = run.pulls
    if pulls is None or not len(pulls.rounds):
        return "This run has no paths of its models"
    first, last = (_spread(pulls.ends[k]) for k in (0, -1))
    least = pulls.lowest
    off = float(np.linalg.norm(_server(run)[-1, 1:] - least)) if pulls.map.size else np.nan
    there = f", and {quoted(run.name)} is {units.number(off)} from the lowest point of the map"
    return (
        f"Local models end {units.number(first)} apart at first and {units.number(last)} at last"
        f"{there if np.isfinite(off) else ''}"
    )


def _spread(ends: Floats) -> float:
    """Return the mean distance of models (K, 2) from their mean."""
    return float(np.linalg.norm(ends - ends.mean(axis=0), axis=1).mean())


class PathsPanel(RunPanel):
    """The paths of the chosen run; a run without them leaves the place of its figure empty."""

    name: ClassVar[str] = "paths"
    section = Section.LEARNED
    rank = 1
    draws = (paths,)
    words = staticmethod(title)
    notes = False
    how = (
        "The line is the server's model, from round to round over the contours of F. Thin lines "
        "lead to where the local work of single clients ends, in a dozen rounds. Shows the run "
        "chosen above."
    )

    @property
    def applies(self) -> bool:
        """Whether any of the shown runs has recorded its path."""
        return any(run.pulls and run.pulls.map.size for run in self.source.runs)
