"""Accuracy of final models by class."""

from __future__ import annotations

from typing import ClassVar

import plotly.graph_objects as go

from rayfed.report.figures.dots import dots
from rayfed.report.figures.style import y_range
from rayfed.report.panels.base import FigurePanel, Section
from rayfed.report.panels.phrases import joined, quoted
from rayfed.report.read import parts, units
from rayfed.report.read.results import Results

MOST = 40
"""Rows of the figure; of more classes those are left out that models know best."""


def classes(results: Results) -> go.Figure:
    """Draw how much of each class final models put into it, for the rows of ``fit.npz``.

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
    values = parts.classes(results)
    if not len(values):
        raise ValueError("no run has a picture of its classes")
    hardest = values.mean(axis=1).dropna().sort_values(kind="stable").index[:MOST]
    shown = values.loc[hardest]
    figure = dots(results, shown, "%{x:.1%}")
    extent = y_range([shown[name].to_numpy() for name in shown], log=False)
    figure.update_xaxes(
        title_text="share of the class that is right", range=extent, tickformat=".2~%"
    )
    return figure


def title(results: Results) -> str:
    """Return which class is the hardest, and how much of it each algorithm has right."""
    values = parts.classes(results)
    rivals = [name for name in results.rivals if name in values] or list(values.columns)
    hardest = str(values[rivals].mean(axis=1).idxmin())
    right = {name: float(values[name][hardest]) for name in rivals}
    order = sorted(rivals, key=lambda name: right[name], reverse=True)
    texts = [f"{units.number(100 * right[name])} % with {quoted(name)}" for name in order]
    return f"Class {hardest} is the hardest: {joined(texts)} of its rows are right"


class ClassesPanel(FigurePanel):
    """The accuracy of each class, a dot for each algorithm."""

    name: ClassVar[str] = "classes"
    section = Section.LEARNED
    rank = 10
    draws = (classes,)
    words = staticmethod(title)
    best_only = True
    keyed = True
    labelled = False

    @property
    def applies(self) -> bool:
        """Whether any run has a picture of more than two classes."""
        return len(parts.classes(self.results)) > 2

    @property
    def how(self) -> str:
        """How to read the figure."""
        count = len(parts.classes(self.results))
        some = f" The {MOST} hardest of {count} classes." if count > MOST else ""
        return (
            "Share of each class that the final model puts into it, the hardest class first; mean "
            f"over seeds, on at most 2,000 of the rows that are scored.{some}"
        )
