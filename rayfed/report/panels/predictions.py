"""Predictions of the final models: their fit, and their accuracy by class."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.core.arrays import Floats
from rayfed.report.figures import charts, marks
from rayfed.report.figures.palette import LIGHT, LineStyle
from rayfed.report.figures.style import algorithm_styles, canvas, fade, y_range
from rayfed.report.panels.base import FigurePanel, RunPanel, Section
from rayfed.report.read import breakdown
from rayfed.report.read.outputs import Fit
from rayfed.report.read.results import Results, RunRecord

HEIGHT = 420
HOW = {
    "curve": "The final model among points that it is scored on",
    "numbers": "One dot for each row that is scored; on the dashed line the prediction is right",
    "classes": "Rows are true classes, columns predicted ones; the stronger the colour of a cell, "
    "the larger its share of the class",
}
"""Caption of each kind of picture."""
MOST = 40
"""Rows of the classes figure; of more classes the easiest are left out."""
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
    NothingToDraw
        If the run has no fit.
    """
    run = results.run(name, seed)
    if run.fit is None:
        raise marks.NothingToDraw.of(run, "has no picture of its model")
    figure = canvas(HEIGHT, hovermode="closest")
    draw = {"curve": _curve, "numbers": _numbers, "classes": _classes}[run.fit.kind]
    draw(figure, run, run.fit, algorithm_styles(results)[name])
    if run.fit.text:
        figure.update_layout(meta={"note": f"The model is {run.fit.text}."})
    return figure


def _curve(figure: go.Figure, run: RunRecord, shown: Fit, style: LineStyle) -> None:
    """Add the points in grey and the curve in the algorithm's colour."""
    hover, grey = "%{x:.4~g}, %{y:.4~g}", {"color": LIGHT["strip"], "size": 5}
    x, y = _xy(shown.points)
    marks.dots(figure, "points", x, y, grey, hover, cliponaxis=None)
    drawn, (x, y) = {"color": style.light, "width": 2.5, "simplify": False}, _xy(shown.curve)
    marks.lines(figure, "curve", x, y, drawn, hover)
    figure.update_xaxes(title_text="x").update_yaxes(title_text="y")
    if shown.square:
        figure.update_yaxes(scaleanchor="x", scaleratio=1)


def _numbers(figure: go.Figure, run: RunRecord, shown: Fit, style: LineStyle) -> None:
    """Add a dot for every row, and the diagonal on which a prediction is right."""
    ends = y_range([shown.points.ravel()], log=False)
    dashed = {"color": LIGHT["muted"], "dash": "4px,4px", "width": 1}
    marks.lines(figure, "diagonal", ends, ends, dashed)
    hover, marker = "target %{x:.4~g}, predicted %{y:.4~g}", {"color": style.light, "size": 6}
    x, y = _xy(shown.points)
    marks.dots(figure, "points", x, y, marker | {"opacity": 0.7}, hover, cliponaxis=None)
    figure.update_xaxes(title_text="target", range=ends).update_yaxes(title_text="predicted")


def _classes(figure: go.Figure, run: RunRecord, shown: Fit, style: LineStyle) -> None:
    """Add a cell for every pair of classes, coloured by its share of the true class."""
    rows = np.maximum(shown.counts.sum(axis=1, keepdims=True), 1)
    few, names = len(rows) <= _WRITTEN, breakdown.class_names(run, len(rows))
    texts = [[f"{count:,}" if count else "" for count in row] for row in shown.counts.tolist()]
    marks.mark(
        figure, "heatmap", "classes",
        "class %{y} predicted as %{x}: %{text} rows, %{z:.3~g} % of the class",
        x=names, y=names, z=100 * shown.counts / rows, zmin=0, zmax=100, xgap=1, ygap=1,
        colorscale=fade(style), showscale=False, text=texts,
        texttemplate="%{text}" if few else None,
    )  # fmt: skip
    ticks = {"showgrid": False, "type": "category", "dtick": 1 if few else None}
    figure.update_xaxes(title_text="predicted class", **ticks)
    figure.update_yaxes(title_text="true class", autorange="reversed", automargin=True, **ticks)


def _xy(points: Floats) -> np.ndarray:
    """Return points (n, 2) as coordinates (2, n), in the precision of a screen."""
    with np.errstate(over="ignore"):  # a diverged model predicts more than fits
        return np.ascontiguousarray(points.T.astype(np.float32))


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
        return f"{HOW[kind]}. At most 2,000 rows are drawn. Shows the run chosen above."


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
    NothingToDraw
        If no run has a picture of classes.
    """
    values = breakdown.classes(results)
    if not len(values):
        raise marks.NothingToDraw("no run has a picture of its classes")
    shown = values.loc[_hardest(values)]
    figure = charts.dotted_rows(results, shown, "%{x:.1%}")
    axis = {"range": y_range([shown.to_numpy().ravel()], log=False), "tickformat": ".2~%"}
    return figure.update_xaxes(title_text="accuracy on the class", **axis)


def _hardest(values: pd.DataFrame) -> pd.Index:
    return values.mean(axis=1).dropna().sort_values(kind="stable").index[:MOST]


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
            "Share of each class that the final model classifies right, the hardest class first; "
            f"mean over seeds, on at most 2,000 of the scored rows.{some}"
        )
