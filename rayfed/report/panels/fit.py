"""Predictions of the final model of a run for rows that it is scored on."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go

from rayfed.core.arrays import Floats
from rayfed.report.figures import marks
from rayfed.report.figures.marks import NothingToDraw
from rayfed.report.figures.palette import LIGHT, LineStyle
from rayfed.report.figures.style import algorithm_styles, canvas, fade
from rayfed.report.panels.base import RunPanel, Section
from rayfed.report.panels.phrases import quoted
from rayfed.report.read import units
from rayfed.report.read.parts import class_names
from rayfed.report.read.recorded import Fit
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
        raise NothingToDraw(f"the run of {name}, seed {seed}, has no fit")
    style = algorithm_styles(results)[name]
    draw = {"curve": _curve, "numbers": _numbers, "classes": _classes}[run.fit.kind]
    figure = canvas(HEIGHT, hovermode="closest")
    draw(figure, run.fit, style)
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


def title(run: RunRecord) -> str:
    """Return how well the final model of a run fits the rows that it is scored on."""
    found, name = run.fit, quoted(run.name)
    if found is None:
        return "This run has no picture of its model"
    if found.kind == "curve":
        return f"{name} found {found.text}"
    if found.kind == "numbers":
        error = float(np.sqrt(np.mean((found.points[:, 1] - found.points[:, 0]) ** 2)))
        return (
            f"The predictions of {name} are off by {units.number(error)} (root mean square) on "
            f"{_rows(run, len(found.points))}"
        )
    right, total = int(np.trace(found.counts)), int(found.counts.sum())
    return f"{name} puts {right:,} of {_rows(run, total)} into their class"


def _rows(run: RunRecord, count: int) -> str:
    return f"{count:,} {run.info.get('scored') or 'drawn'} rows".replace("server", "test")


class FitPanel(RunPanel):
    """The fit of the chosen run; a run without one leaves the place of its figure empty."""

    name: ClassVar[str] = "fit"
    section = Section.LEARNED
    rank = 0
    draws = (fit,)
    words = staticmethod(title)
    notes = False

    @property
    def applies(self) -> bool:
        """Whether any of the shown runs has a fit."""
        return any(run.fit for run in self.source.runs)

    @property
    def how(self) -> str:
        """How to read the figure of this kind of problem."""
        kind = next(run.fit.kind for run in self.results.runs_found if run.fit)
        return f"{HOW[kind]}. At most 2,000 are drawn. Shows the run chosen above."
