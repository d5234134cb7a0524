"""Which classes final models know, and which they do not."""

from __future__ import annotations

from typing import ClassVar

import plotly.graph_objects as go

from rayfed.report.figures.dots import MOST, classes
from rayfed.report.panels.base import FigurePanel, Section
from rayfed.report.panels.phrases import joined, quoted
from rayfed.report.read import parts, units
from rayfed.report.read.results import Results


class ClassesPanel(FigurePanel):
    """The accuracy of each class, a dot for each algorithm."""

    name: ClassVar[str] = "classes"
    section = Section.LEARNED
    rank = 10
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

    def title(self) -> str:
        """Return which class is the hardest, and how much of it each algorithm has right."""
        return title(self.results)

    def figure(self) -> go.Figure:
        """Return `figures.classes`; the key stands above it."""
        return classes(self.results).update_layout(showlegend=False)


def title(results: Results) -> str:
    """Return which class is the hardest, and how much of it each algorithm has right."""
    values = parts.classes(results)
    rivals = [name for name in results.rivals if name in values] or list(values.columns)
    hardest = str(values[rivals].mean(axis=1).idxmin())
    right = {name: float(values[name][hardest]) for name in rivals}
    order = sorted(rivals, key=lambda name: right[name], reverse=True)
    texts = [f"{units.number(100 * right[name])} % with {quoted(name)}" for name in order]
    return f"Class {hardest} is the hardest: {joined(texts)} of its rows are right"
