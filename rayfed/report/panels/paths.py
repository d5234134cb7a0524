"""Paths of the server's model and of local models over the contours of the objective."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import plotly.graph_objects as go

from rayfed.report.figures import marks
from rayfed.report.figures.palette import LIGHT
from rayfed.report.figures.style import algorithm_styles, canvas
from rayfed.report.panels.base import RunPanel, Section
from rayfed.report.read.outputs import Pulls
from rayfed.report.read.results import Results

_HEIGHT = 520
_LEVELS = 14
_DRAWN = 12  # rounds of which local models are drawn


def paths(results: Results, name: str, seed: int) -> go.Figure:
    """Draw the path of a model of two numbers, and the local models of some rounds.

    Contours are those of F, at equal steps of log(F - least F), so that they are dense where it is
    flat, too. Thin lines lead from the server's model to the local model of a client at the end of
    its local steps, in a dozen rounds; that they end at different places is the drift.

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
    NothingToDraw
        If the run has no map of F.
    """
    run = results.run(name, seed)
    pulls = run.pulls
    if pulls is None or not pulls.map.size:
        text = "has no map of F; it takes the measure path, and a model of two numbers"
        raise marks.NothingToDraw.of(run, text)
    figure, colour = canvas(_HEIGHT, hovermode="closest"), algorithm_styles(results)[name].light
    _contours(figure, pulls)
    rounds = np.unique(np.geomspace(1, len(pulls.rounds), _DRAWN).round().astype(int)) - 1
    for place, client in enumerate(pulls.clients.tolist()):
        _pulls(figure, pulls, place, client, rounds)
    at = run.rounds[["round", "model_0", "model_1"]].dropna().to_numpy(np.float64).T
    marks.lines(
        figure, "server", at[1], at[2], {"color": colour, "width": 2.5},
        "round %{customdata}: %{x:.4~g}, %{y:.4~g}", mode="lines+markers",
        marker={"size": 6, "color": colour}, customdata=at[0],
    )  # fmt: skip
    for update, title, span in zip(
        (figure.update_xaxes, figure.update_yaxes), ("first", "second"), pulls.box.T, strict=True
    ):
        axis = {"range": span.tolist(), "showgrid": False, "constrain": "domain"}
        update(title_text=f"{title} parameter", **axis)
    return figure.update_yaxes(scaleanchor="x", scaleratio=1)


def _pulls(figure: go.Figure, pulls: Pulls, place: int, client: int, rounds: np.ndarray) -> None:
    """Add lines from the server's model to a client's local models, and a dot at their ends."""
    ends = pulls.ends[rounds, place]
    pairs = np.stack([pulls.starts[rounds], ends, np.full_like(ends, np.nan)], axis=1)
    x, y = pairs.reshape(-1, 2).T
    thin, dot = {"color": LIGHT["muted"], "width": 1}, {"color": LIGHT["muted"], "size": 5}
    marks.lines(figure, "pull", x, y, thin, opacity=0.6)
    hover = "client %{customdata[0]} in round %{customdata[1]}: %{x:.4~g}, %{y:.4~g}"
    about = np.column_stack([np.full(len(rounds), client), pulls.rounds[rounds] + 1])
    marks.dots(figure, "end", ends[:, 0], ends[:, 1], dot, hover, customdata=about)


def _contours(figure: go.Figure, pulls: Pulls) -> None:
    """Add the lines of equal F, labelled by F, at equal steps of the logarithm of its gap."""
    across, up = (np.linspace(low, high, len(pulls.map)) for low, high in pulls.box.T)
    gaps = pulls.map - np.nanmin(pulls.map)
    floor = float(np.quantile(gaps[gaps > 0], 0.01)) if (gaps > 0).any() else 1.0
    heights = np.log10(gaps + floor)
    low, high = float(heights.min()), float(heights.max())
    levels = {"start": low, "end": high, "size": (high - low) / _LEVELS or 1.0}
    marks.mark(
        figure, "contour", "F", "F = %{customdata:.4~g}", x=across, y=up, z=heights,
        customdata=pulls.map, showscale=False, line={"width": 1, "smoothing": 1},
        colorscale=[[0, LIGHT["strip"]], [1, LIGHT["strip"]]],
        contours={"coloring": "lines", **levels},
    )  # fmt: skip


class PathsPanel(RunPanel):
    """The paths of the chosen run; a run without them leaves the place of its figure empty."""

    name: ClassVar[str] = "paths"
    section = Section.LEARNED
    rank = 1
    draws = (paths,)
    heading = "Paths of the server and local models"
    how = (
        "The thick line is the path of the server's model over the contours of F. Thin lines lead "
        "to local models at the end of a round, in a dozen rounds. Shows the run chosen above."
    )
