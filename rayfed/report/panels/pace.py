"""Whether slow clients are served worse than fast ones."""

from __future__ import annotations

from typing import ClassVar

import plotly.graph_objects as go

from rayfed.report.figures import pace
from rayfed.report.figures.pace import served
from rayfed.report.figures.participation import MOST_DOTS, fifth
from rayfed.report.panels.base import RunPanel, Section
from rayfed.report.panels.phrases import quoted
from rayfed.report.read import units
from rayfed.report.read.results import Run


class PacePanel(RunPanel):
    """The accuracy of each client, or its loss, against the time of its local steps."""

    name: ClassVar[str] = "pace"
    section = Section.FAIRNESS
    rank = 40
    clickable = True

    @property
    def applies(self) -> bool:
        """Whether the clients of any run differ in speed, and it is known how they are served."""
        return any(served(run)[1]["speed_s"].nunique() > 1 for run in self.source.runs)

    @property
    def how(self) -> str:
        """How to read the figure."""
        if any(len(served(run)[1]) > MOST_DOTS for run in self.source.runs):
            return (
                "Tenths of the clients by speed: the dot is the mean, the grey line reaches from "
                "the 10th to the 90th percentile. Shows the run chosen above."
            )
        return "One dot for each client. Shows the run chosen above."

    def title(self, run: Run) -> str:
        """Return how the slowest fifth of the clients is served, and the others."""
        return title(run)

    def figure(self, run: Run) -> go.Figure | None:
        """Return `figures.pace`, or None."""
        return pace(self.results, run.name, run.seed) if len(served(run)[1]) else None


def title(run: Run) -> str:
    """Return how the slowest fifth of the clients is served, and the others."""
    measure, clients = served(run)
    if len(clients) < 2:
        return "Who is fast and how well served is not recorded for this run"
    split = len(clients) - fifth(len(clients))
    others, slow = (
        clients[measure].iloc[part].mean() for part in (slice(split), slice(split, None))
    )
    return (
        f"With {quoted(run.name)} the slowest fifth of the clients has {measure} "
        f"{units.number(slow)} on average, the others {units.number(others)}"
    )
