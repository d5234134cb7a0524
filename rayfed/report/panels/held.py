"""Which labels clients hold."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import plotly.graph_objects as go

from rayfed.report.figures import labels
from rayfed.report.figures.held import SINGLE, counted, label_shares
from rayfed.report.panels.base import RunPanel, Section
from rayfed.report.read import units
from rayfed.report.read.results import Run


class LabelsPanel(RunPanel):
    """The labels of each client, or of many clients together."""

    name: ClassVar[str] = "labels"
    section = Section.FAIRNESS
    rank = 0
    clickable = True

    @property
    def applies(self) -> bool:
        """Whether the labels of any run's clients are recorded."""
        return any(run.held is not None for run in self.source.runs)

    @property
    def how(self) -> str:
        """How to read the figure."""
        if any(len(counted(run)) > SINGLE for run in self.source.runs):
            return (
                "The stronger the colour, the more clients have so large a part of their training "
                "rows of that label. Shows the run chosen above."
            )
        return (
            "Rows are clients, the fastest at the top; numbers are training rows. Click a cell "
            "for that client's history. Shows the run chosen above."
        )

    def title(self, run: Run) -> str:
        """Return how many labels clients hold, and how much of the rows the most common one is."""
        return title(run)

    def figure(self, run: Run) -> go.Figure | None:
        """Return `figures.labels`, or None."""
        return labels(self.results, run.name, run.seed) if len(counted(run)) else None


def title(run: Run) -> str:
    """Return how many labels clients hold, and how much of the rows the most common one is."""
    counts = counted(run)
    if not len(counts):
        return "The labels of the clients of this run are not recorded"
    held = np.sort((counts.to_numpy() > 0).sum(axis=1))
    low, high, total = int(held[0]), int(held[-1]), counts.shape[1]
    if low == high:
        number = f"Each client holds {'all' if low == total else low} of {total} labels"
    else:
        half = int(held[(len(held) - 1) // 2])
        number = f"Half of the clients hold at most {half} of {total} labels"
        if half == total:
            number = f"More than half of the clients hold all {total} labels"
    top = float(label_shares(counts).max(axis=1).mean())
    return f"{number}; the most common one has {units.share(top)} of a client's rows on average"
