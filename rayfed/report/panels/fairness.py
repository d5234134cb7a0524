"""How well the model serves each client, from the worst served to the best."""

from __future__ import annotations

import math
from typing import ClassVar

import plotly.graph_objects as go

from rayfed.report.figures.fairness import fairness, fairness_column, worst_tenth
from rayfed.report.panels.base import FigurePanel, Section
from rayfed.report.panels.phrases import MOST_NAMED, joined, quoted
from rayfed.report.read import units
from rayfed.report.read.results import Results


class FairnessPanel(FigurePanel):
    """A line for each algorithm over the clients in order of their accuracy or loss."""

    name: ClassVar[str] = "fairness"
    section = Section.FAIRNESS
    rank = 30
    best_only = True
    keyed = True

    @property
    def applies(self) -> bool:
        """Whether a loss or an accuracy of single clients is recorded."""
        clients = self.results.clients
        return any(c in clients and clients[c].notna().any() for c in ("accuracy", "loss"))

    def title(self) -> str:
        """Return how the worst-served tenth of clients fares under each algorithm."""
        return title(self.results)

    def figure(self) -> go.Figure:
        """Return `figures.fairness`."""
        return fairness(self.results)

    @property
    def has_personal(self) -> bool:
        """Whether some clients are served by a model of their own."""
        return "personal_accuracy" in self.results.rounds


def title(results: Results) -> str:
    """Return how the worst-served tenth of clients fares under each algorithm."""
    column = fairness_column(results)
    values = {name: worst_tenth(results, name, column) for name in results.rivals}
    known = {name: value for name, value in values.items() if math.isfinite(value)}
    if not known:
        return "No values per client are recorded"
    order = sorted(known, key=lambda name: known[name], reverse=column == "accuracy")
    texts = [f"{units.number(known[name])} with {quoted(name)}" for name in order[:MOST_NAMED]]
    return f"The worst-served tenth of the clients has {column} {joined(texts)}"
