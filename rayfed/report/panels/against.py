"""Any two columns against each other, chosen by the reader."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import plotly.graph_objects as go

from rayfed.report.figures import against
from rayfed.report.figures.against import first_pair, path
from rayfed.report.panels.base import FigurePanel, Section
from rayfed.report.read.results import Results
from rayfed.report.read.series import X_AXES, clocks, y_columns


class AgainstPanel(FigurePanel):
    """A line an algorithm through the rounds; its script draws other pairs."""

    name: ClassVar[str] = "against"
    section = Section.RESULTS
    rank = 40
    best_only = True
    keyed = True
    labelled = False

    @property
    def applies(self) -> bool:
        """Whether there are two columns to draw."""
        pair = first_pair(self.results)
        several = len(y_columns(self.results)) > 1  # over a clock one is drawn above
        return several and any(len(path(self.results, n, *pair)) for n in self.results.names)

    def title(self) -> str:
        """Return which columns are drawn."""
        return title(self.results, *first_pair(self.results))

    def figure(self) -> go.Figure:
        """Return `figures.against`."""
        return against(self.results)

    @cached_property
    def payload(self) -> dict[str, Any]:
        """The figure, and the columns that it shows."""
        return super().payload | {"first": dict(zip("xy", first_pair(self.results), strict=True))}

    @property
    def xs(self) -> list[tuple[str, str]]:
        """The choices of an x axis: clocks and columns with their titles."""
        shown = clocks(self.results)
        axes = {name: axis.title for name, axis in shown.items()}
        return list((axes | {c: t for c, t in self.ys if c not in shown}).items())

    @property
    def ys(self) -> list[tuple[str, str]]:
        """The choices of a y axis: columns with their titles."""
        return [(c, self.results.column(c).title) for c in y_columns(self.results)]


def title(results: Results, x: str, y: str) -> str:
    """Return which columns are drawn."""
    under = X_AXES[x].title if x in clocks(results) else results.column(x).title
    return f"{results.column(y).title} against {under}"
