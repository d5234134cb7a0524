"""What a search found: its trials, what they chose, and which keys mattered."""

from __future__ import annotations

from typing import ClassVar

import plotly.graph_objects as go

from rayfed.report.figures.search import draw_coordinates, draw_importance, draw_trials
from rayfed.report.panels.base import FigurePanel, Section
from rayfed.report.panels.phrases import joined
from rayfed.report.read import units
from rayfed.report.searched import PARTS, Searched, text_of


class _SearchPanel(FigurePanel):
    """Base of the panels of a search."""

    @property
    def searched(self) -> Searched:
        """All trials."""
        assert self.source.searched is not None
        return self.source.searched

    @property
    def applies(self) -> bool:
        """Whether the folder is that of a search."""
        return self.source.searched is not None


class TrialsPanel(_SearchPanel):
    """A line for each trial over simulated time; the best of each algorithm in its colour."""

    name: ClassVar[str] = "trials"
    section = Section.SEARCH
    rank = 0
    keyed = True
    labelled = False

    def title(self) -> str:
        """Return what the best trial of each algorithm reached, and by how much it is best."""
        return title(self.searched)

    @property
    def how(self) -> str:
        """How to read the figure."""
        count = sum(map(len, self.searched.best.rivals.values()))
        return (
            f"Each of {count} trials is a line, the best of each algorithm in its colour: the mean "
            "over seeds. Lines that leave the figure at the top got worse. All other figures of "
            "this page show the best trials alone."
        )

    def figure(self) -> go.Figure:
        """Return `figures.trials`."""
        return draw_trials(self.searched)


class CoordinatesPanel(_SearchPanel):
    """Parallel coordinates: a line for each trial over the values that it chose."""

    name: ClassVar[str] = "coordinates"
    section = Section.SEARCH
    rank = 10

    @property
    def applies(self) -> bool:
        """Whether any algorithm was searched."""
        found = self.source.searched
        return found is not None and any(found.space(label) for label in found.labels)

    def title(self) -> str:
        """Return what the best trial of each algorithm chose."""
        found = self.searched
        labels = [label for label in found.labels if found.space(label)]
        texts = [f"{label} with {text_of(found.values(found.chosen(label)))}" for label in labels]
        return f"The best trials are {joined(texts)}"

    @property
    def how(self) -> str:
        """How to read the figure."""
        return (
            "A line is a trial: it crosses each axis at the value that it chose, and the last one "
            "at what it reached, the best at the top and failures at the bottom. A best line near "
            "the end of an axis says that the range should be wider."
        )

    def figure(self) -> go.Figure:
        """Return `figures.coordinates`."""
        return draw_coordinates(self.searched)


class ImportancePanel(_SearchPanel):
    """A bar for each key: how much of the trials' order it alone explains."""

    name: ClassVar[str] = "importance"
    section = Section.SEARCH
    rank = 20

    @property
    def applies(self) -> bool:
        """Whether there are trials enough to tell."""
        found = self.source.searched
        return found is not None and any(found.importance(label) for label in found.labels)

    def title(self) -> str:
        """Return the key that matters most for each algorithm."""
        texts = []
        for label in self.searched.labels:
            shares = self.searched.importance(label)
            if shares:
                key = max(shares, key=lambda key: shares[key])
                name, share = key.rpartition(".")[2], units.number(100 * shares[key], 2)
                texts.append(f"{name} explains {share} % of the order of {label}'s trials")
        return f"By itself, {joined(texts)}"

    @property
    def how(self) -> str:
        """How to read the figure."""
        return (
            "Variance of the trials' ranks between quarters of a key's values, as a share of all "
            "of it and corrected for chance (epsilon squared)"
            f"; choices and up to {PARTS} values are compared one by one. What keys do together is "
            "not seen."
        )

    def figure(self) -> go.Figure:
        """Return `figures.importance`."""
        return draw_importance(self.searched)


def title(searched: Searched) -> str:
    """Return what the best trial of each algorithm reached, the best first."""
    best, column = searched.best, searched.results.column(searched.best.aim.column)
    order = sorted(best.winners, key=lambda winner: winner.best.place(best.aim))
    texts = [
        f"{units.number(winner.best.value)} by {winner.best.algorithm}"
        + (f" in {winner.tried} trials" if winner.tried > 1 else "")
        + (f" ({winner.level} more within noise)" if winner.level else "")
        for winner in order
        if not winner.best.failed
    ]
    return f"The best {column.title} is {joined(texts)}" if texts else "Every trial failed"
