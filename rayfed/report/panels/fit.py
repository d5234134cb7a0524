"""What the final model of a run makes of rows that it is scored on."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import plotly.graph_objects as go

from rayfed.report.figures.fit import HOW, fit
from rayfed.report.panels.base import RunPanel, Section
from rayfed.report.panels.phrases import quoted
from rayfed.report.read import units
from rayfed.report.read.results import Run


class FitPanel(RunPanel):
    """The fit of the chosen run; a run without one leaves the place of its figure empty."""

    name: ClassVar[str] = "fit"
    section = Section.LEARNED
    rank = 0
    notes = False

    @property
    def applies(self) -> bool:
        """Whether any of the shown runs has a fit."""
        return any(run.fit for run in self.source.runs)

    def title(self, run: Run) -> str:
        """Return how well the final model of a run fits."""
        return title(run)

    def figure(self, run: Run) -> go.Figure | None:
        """Return `figures.fit`, or None."""
        return fit(self.results, run.name, run.seed) if run.fit else None

    @property
    def how(self) -> str:
        """How to read the figure of this kind of problem."""
        kind = next(run.fit.kind for run in self.results.runs_found if run.fit)
        return f"{HOW[kind]}. At most 2,000 are drawn. Shows the run chosen above."


def title(run: Run) -> str:
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


def _rows(run: Run, count: int) -> str:
    return f"{count:,} {run.info.get('scored') or 'drawn'} rows".replace("server", "test")
