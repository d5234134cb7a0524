"""What compression has left out so far: the norm of what memories have not sent yet."""

from __future__ import annotations

from typing import ClassVar

import plotly.graph_objects as go

from rayfed.report.figures import marks
from rayfed.report.figures.labels import label_ends
from rayfed.report.figures.style import algorithm_styles, canvas, fitted, line, spans_decades
from rayfed.report.panels.base import FigurePanel, Section
from rayfed.report.panels.phrases import MOST_NAMED, joined, quoted
from rayfed.report.read import units
from rayfed.report.read.results import Results
from rayfed.report.read.series import Curve, curve, history

HEIGHT = 320
_COLUMN = "left_out"


def left_out(results: Results) -> go.Figure:
    """Draw the norm of what memories of uploads have not sent yet, by round.

    Parameters
    ----------
    results : Results
        A result folder.

    Returns
    -------
    Figure
        A line for each algorithm that recorded it, mean over seeds.

    Raises
    ------
    NothingToDraw
        If no run recorded it; set ``evaluate.left_out``.
    """
    curves = _curves(results)
    if not curves:
        raise marks.NothingToDraw("no run has what compression left out; set evaluate.left_out")
    figure, styles = canvas(HEIGHT, hovermode="x unified"), algorithm_styles(results)
    for name, values in curves.items():
        marks.lines(
            figure, "mean", values.x, values.mean, line(styles[name]), of=name, name=name,
            hovertemplate="%{y:.3g}", mode="lines" if len(values.x) > 1 else "markers",
        )  # fmt: skip
    means = [values.mean for values in curves.values()]
    figure.update_yaxes(fitted(results.column(_COLUMN).label, means, spans_decades(means)))
    figure.update_xaxes(title_text="round", showgrid=False)
    label_ends(figure, {name: float(c.mean[-1]) for name, c in curves.items()}, styles)
    return figure


def _curves(results: Results) -> dict[str, Curve]:
    """Return what each algorithm has left out by round, of those that recorded it."""
    found = {}
    for name in results.names:
        values = curve([history(run) for run in results.usable(name)], "round", _COLUMN)
        if len(values.x):
            found[name] = values
    return found


def title(results: Results) -> str:
    """Return how much each algorithm has not sent in the end, the most first."""
    ends = {name: float(values.mean[-1]) for name, values in _curves(results).items()}
    order = sorted(ends, key=lambda name: -ends[name])[:MOST_NAMED]
    texts = [f"{units.number(ends[name])} of {quoted(name)}" for name in order]
    return f"Not sent yet in the end: a norm of {joined(texts)}"


class LeftOutPanel(FigurePanel):
    """What memories of uploads have not sent yet, a line for each algorithm."""

    name: ClassVar[str] = "left-out"
    section = Section.RESULTS
    rank = 38
    draws = (left_out,)
    words = staticmethod(title)
    best_only = True
    keyed = True
    how = (
        "Root mean square, over the replies of a round, of the norm of what memories have not sent "
        "yet; mean over seeds."
    )

    @property
    def names(self) -> list[str]:
        """The algorithms with a memory."""
        return [*_curves(self.results)]
