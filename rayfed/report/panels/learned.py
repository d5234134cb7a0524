"""Final models: model and path of a run, and values by part."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go

from rayfed.core.arrays import Floats
from rayfed.report.figures import marks
from rayfed.report.figures.marks import NothingToDraw, dotted_rows
from rayfed.report.figures.palette import LIGHT, LineStyle
from rayfed.report.figures.style import algorithm_styles, canvas, fade, fitted, y_range
from rayfed.report.panels.base import FigurePanel, RunPanel, Section
from rayfed.report.read import breakdown
from rayfed.report.read.breakdown import class_names
from rayfed.report.read.outputs import Fit, Pulls
from rayfed.report.read.results import Results, RunRecord

HEIGHT = 420
HOW = {
    "curve": "The final model among points that it is scored on",
    "numbers": "One dot for each row that is scored; on the dashed line the final model is right",
    "classes": "Rows that the final model is scored on; the colour of a cell is as strong "
    "as the share of the class, a row of the figure, that is put there",
}
"""How to read each kind of picture."""
_WRITTEN = 12  # classes up to which every cell has its number
_PATHS_HEIGHT = 520
_LEVELS = 14
_DRAWN = 12  # rounds whose local work is drawn


def fit(results: Results, name: str, seed: int) -> go.Figure:
    """Draw points and the model's curve, predictions against targets, or classes against classes.

    Parameters
    ----------
    results : Results
        A result folder.
    name : str
        The algorithm.
    seed : int
        The seed; its run must have a fit.

    Returns
    -------
    Figure
        Which of the three it is depends on the problem; every trace has its part in ``meta``.

    Raises
    ------
    ValueError
        If the run has no fit.
    """
    run = results.run(name, seed)
    if run.fit is None:
        raise NothingToDraw.of(run, "has no picture of its model")
    style = algorithm_styles(results)[name]
    draw = {"curve": _curve, "numbers": _numbers, "classes": _classes}[run.fit.kind]
    figure = canvas(HEIGHT, hovermode="closest")
    draw(figure, run.fit, style)
    if run.fit.text:
        figure.update_layout(meta={"note": f"The model is {run.fit.text}."})
    if run.fit.kind == "classes":
        names = class_names(run, len(run.fit.counts))
        figure.update_traces(x=names, y=names)
    return figure


def _curve(figure: go.Figure, shown: Fit, style: LineStyle) -> None:
    """Add the points in grey and the curve in the algorithm's colour."""
    hover, grey = "%{x:.4~g}, %{y:.4~g}", {"color": LIGHT["strip"], "size": 5}
    marks.dots(figure, "points", *_xy(shown.points), grey, hover, cliponaxis=None)
    drawn = {"color": style.light, "width": 2.5, "simplify": False}
    marks.lines(figure, "curve", *_xy(shown.curve), drawn, hover)
    figure.update_xaxes(title_text="x")
    figure.update_yaxes(title_text="y")
    if shown.square:
        figure.update_yaxes(scaleanchor="x", scaleratio=1)


def _numbers(figure: go.Figure, shown: Fit, style: LineStyle) -> None:
    """Add a dot for every row, and the diagonal on which a prediction is right."""
    low, high = float(shown.points.min()), float(shown.points.max())
    margin = 0.04 * (high - low or 1.0)
    ends = [low - margin, high + margin]
    dashed = {"color": LIGHT["muted"], "dash": "4px,4px", "width": 1}
    marks.lines(figure, "diagonal", ends, ends, dashed)
    hover, marker = "target %{x:.4~g}, predicted %{y:.4~g}", {"color": style.light, "size": 6}
    at = _xy(shown.points)
    marks.dots(figure, "points", *at, marker | {"opacity": 0.7}, hover, cliponaxis=None)
    figure.update_xaxes(title_text="target", range=ends)
    figure.update_yaxes(title_text="predicted")


def _classes(figure: go.Figure, shown: Fit, style: LineStyle) -> None:
    """Add a cell for every pair of classes, as strong as the share of the class that is in it."""
    rows = np.maximum(shown.counts.sum(axis=1, keepdims=True), 1)
    few = len(rows) <= _WRITTEN
    texts = [[f"{count:,}" if count else "" for count in row] for row in shown.counts.tolist()]
    marks.mark(
        figure, "heatmap", "classes",
        "class %{y} put into %{x}: %{text} rows, %{z:.3~g} % of the class",
        z=100 * shown.counts / rows, colorscale=fade(style), zmin=0, zmax=100, xgap=1, ygap=1,
        showscale=False, text=texts, texttemplate="%{text}" if few else None,
    )  # fmt: skip
    ticks = {"showgrid": False, "type": "category", "dtick": 1 if few else None}
    figure.update_xaxes(title_text="put into class", **ticks)
    figure.update_yaxes(title_text="class", autorange="reversed", automargin=True, **ticks)


def _xy(points: Floats) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return points (n, 2) as coordinates (2, n), in the precision of a screen."""
    with np.errstate(over="ignore"):  # a diverged model predicts more than fits
        x, y = np.ascontiguousarray(points.T.astype(np.float32))
    return x, y


class FitPanel(RunPanel):
    """The fit of the chosen run; a run without one leaves the place of its figure empty."""

    name: ClassVar[str] = "fit"
    section = Section.LEARNED
    rank = 0
    draws = (fit,)
    heading = "Predictions of the final model"

    @property
    def how(self) -> str:
        """Caption for this kind of problem."""
        kind = next(run.fit.kind for run in self.results.runs_found if run.fit)
        return f"{HOW[kind]}. At most 2,000 are drawn. Shows the run chosen above."


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
        text = "has no map of F; it takes the measure path, and a model of two numbers"
        raise NothingToDraw.of(run, text)
    style = algorithm_styles(results)[name]
    figure = canvas(_PATHS_HEIGHT, hovermode="closest")
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


class PathsPanel(RunPanel):
    """The paths of the chosen run; a run without them leaves the place of its figure empty."""

    name: ClassVar[str] = "paths"
    section = Section.LEARNED
    rank = 1
    draws = (paths,)
    heading = "Paths of the server and local models"
    how = (
        "The line is the server's model, from round to round over the contours of F. Thin lines "
        "lead to where the local work of single clients ends, in a dozen rounds. Shows the run "
        "chosen above."
    )


MOST = 40
"""Rows of the figure; of more classes those are left out that models know best."""


def classes(results: Results) -> go.Figure:
    """Draw the share of each class that final models classify right, for the rows of ``fit.npz``.

    Parameters
    ----------
    results : Results
        A result folder.

    Returns
    -------
    Figure
        A row for each class, the hardest first, and a dot for each algorithm, mean over seeds; at
        most 40 classes.

    Raises
    ------
    ValueError
        If no run has a picture of classes.
    """
    values = breakdown.classes(results)
    if not len(values):
        raise NothingToDraw("no run has a picture of its classes")
    hardest = values.mean(axis=1).dropna().sort_values(kind="stable").index[:MOST]
    shown = values.loc[hardest]
    figure = dotted_rows(results, shown, "%{x:.1%}")
    extent = y_range([shown[name].to_numpy() for name in shown], log=False)
    figure.update_xaxes(
        title_text="share of the class that is right", range=extent, tickformat=".2~%"
    )
    return figure


class ClassesPanel(FigurePanel):
    """The accuracy of each class, a dot for each algorithm."""

    name: ClassVar[str] = "classes"
    section = Section.LEARNED
    rank = 10
    draws = (classes,)
    heading = "Accuracy by class"
    best_only = True
    keyed = True

    @property
    def applies(self) -> bool:
        """Whether any run has a picture of more than two classes."""
        return len(breakdown.classes(self.results)) > 2

    @property
    def how(self) -> str:
        """Caption of the figure."""
        count = len(breakdown.classes(self.results))
        some = f" The {MOST} hardest of {count} classes." if count > MOST else ""
        return (
            "Share of each class that the final model puts into it, the hardest class first; mean "
            f"over seeds, on at most 2,000 of the rows that are scored.{some}"
        )


def layers(results: Results) -> go.Figure:
    """Draw the last recorded drift of each layer: distance of local models from their mean.

    Parameters
    ----------
    results : Results
        A result folder.

    Returns
    -------
    Figure
        A row for each layer, from the input down, and a dot for each algorithm, mean over seeds.

    Raises
    ------
    ValueError
        If no run recorded any; give ``evaluate.measures: [layers]``.
    """
    values = breakdown.layers(results)
    if not len(values):
        raise NothingToDraw("no run has the drift of its layers; give evaluate.measures: [layers]")
    columns = [values[name].dropna().to_numpy() for name in values]
    figure = dotted_rows(results, values, "%{x:.3~g}")
    axis = fitted("drift, in units of the layer's norm", columns)
    if axis["type"] == "linear":
        axis["range"] = [0.0, 1.05 * float(values.max().max()) or 1.0]
    return figure.update_xaxes(axis)


class LayersPanel(FigurePanel):
    """The drift of each layer at the end, a dot for each algorithm."""

    name: ClassVar[str] = "layers"
    section = Section.LEARNED
    rank = 20
    draws = (layers,)
    heading = "Drift of local models by layer"
    best_only = True
    keyed = True
    how = (
        "Layers from the input down. The drift is the root mean square distance of clients' "
        "local models from their mean after the local work of a round, over the norm of that "
        "mean; the last evaluation, mean over seeds."
    )


def profile(results: Results) -> go.Figure:
    """Draw the wall time of each step of a round.

    Parameters
    ----------
    results : Results
        A result folder.

    Returns
    -------
    Figure
        A row for each step, in the order of a round, and a dot for each algorithm, mean over
        seeds.

    Raises
    ------
    ValueError
        If no run was profiled; run the study with ``--profile``.
    """
    values = breakdown.steps(results)
    if not len(values):
        raise NothingToDraw("no run was profiled; run the study with --profile")
    figure = dotted_rows(results, values, "%{x:.3~g} ms")
    most = 1.05 * float(values.max().max()) or 1.0
    figure.update_xaxes(title_text="wall-clock time of a round (ms)", range=[-0.01 * most, most])
    return figure


class ProfilePanel(FigurePanel):
    """The wall-clock time of each step of a round, a dot for each algorithm."""

    name: ClassVar[str] = "profile"
    section = Section.MACHINE
    rank = 0
    draws = (profile,)
    heading = "Wall time of a round by step"
    keyed = True
    how = (
        "Wall-clock milliseconds of this machine for a round, on average over the rounds of "
        "each run and over seeds; none of it is simulated. Computing is that of the slowest "
        "host; sending is what passes until it is asked and has answered."
    )
