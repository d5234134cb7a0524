"""How the times of rounds, and the staleness of replies, are spread."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import ClassVar

import numpy as np
import plotly.graph_objects as go

from rayfed.core.arrays import Floats
from rayfed.report.figures import round_times, staleness
from rayfed.report.figures.spread import values_of
from rayfed.report.panels.base import FigurePanel, Section
from rayfed.report.panels.phrases import MOST_NAMED, joined, quoted
from rayfed.report.read import units
from rayfed.report.read.results import Results

_ROUNDING = 1e-9  # relative to the longest time


class RoundTimesPanel(FigurePanel):
    """How long the rounds of each algorithm took."""

    name: ClassVar[str] = "round-times"
    section = Section.CLIENTS
    rank = 50
    best_only = True
    keyed = True
    labelled = False

    @property
    def applies(self) -> bool:
        """Whether some rounds of an algorithm took longer than others, by more than rounding."""
        values = values_of(self.results, lambda usage: usage.round_times)
        return any(times[-1] - times[0] > _ROUNDING * times[-1] for times in values.values())

    @property
    def how(self) -> str:
        """How to read the figure."""
        if self.results.asynchronous:
            return (
                "Each line rises from the shortest time to the longest, over all seeds. For "
                "asynchronous algorithms it is the time between two updates of the model."
            )
        return "Each line rises from the shortest round to the longest, over all seeds."

    @property
    def names(self) -> Collection[str]:
        """The algorithms that have a line."""
        return values_of(self.results, lambda usage: usage.round_times).keys()

    def title(self) -> str:
        """Return what half, and nine in ten, of the rounds took at most."""
        return times_title(self.results)

    def figure(self) -> go.Figure:
        """Return `figures.round_times`."""
        return round_times(self.results)


class StalenessPanel(FigurePanel):
    """How stale the replies of asynchronous algorithms were."""

    name: ClassVar[str] = "staleness"
    section = Section.CLIENTS
    rank = 60
    best_only = True
    keyed = True
    labelled = False

    @property
    def applies(self) -> bool:
        """Whether a run is asynchronous."""
        return bool(values_of(self.results, lambda usage: usage.staleness))

    @property
    def names(self) -> Collection[str]:
        """The algorithms that have a line."""
        return values_of(self.results, lambda usage: usage.staleness).keys()

    def title(self) -> str:
        """Return how stale half, and nine in ten, of the replies were at most."""
        return staleness_title(self.results)

    def figure(self) -> go.Figure:
        """Return `figures.staleness`."""
        return staleness(self.results)


def times_title(results: Results) -> str:
    """Return what half, and nine in ten, of the rounds took at most."""
    values = values_of(results, lambda usage: usage.round_times)
    what = "rounds and updates" if results.asynchronous else "rounds"
    return f"Half of the {what} took at most {_halves(results, values, units.duration)}"


def staleness_title(results: Results) -> str:
    """Return how stale half, and nine in ten, of the replies were at most."""
    values = values_of(results, lambda usage: usage.staleness)
    return f"Half of the replies had a staleness of at most {_halves(results, values, units.count)}"


def _halves(results: Results, values: Mapping[str, Floats], text: Callable[[float], str]) -> str:
    """Return what half of the values, and nine in ten, do not exceed, of a few algorithms."""
    names = ([name for name in results.rivals if name in values] or list(values))[:MOST_NAMED]
    parts = []
    for name in names:
        half, most = (text(_at(values[name], share)) for share in (0.5, 0.9))
        parts.append(f"{half} with {quoted(name)} (nine in ten {most})")
    return joined(parts)


def _at(values: Floats, share: float) -> float:
    """Return the least value that so large a share of the values does not exceed."""
    return float(np.quantile(values, share, method="inverted_cdf"))
