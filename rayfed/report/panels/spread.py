"""Distributions of the times of rounds, and of the staleness of replies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np
import plotly.graph_objects as go

from rayfed.core.arrays import Floats
from rayfed.report.figures import marks
from rayfed.report.figures.labels import plain
from rayfed.report.figures.marks import NothingToDraw
from rayfed.report.figures.style import algorithm_styles, canvas, fitted, line, scale, spans_decades
from rayfed.report.panels.base import FigurePanel, Section
from rayfed.report.panels.phrases import MOST_NAMED, competing, joined, quoted
from rayfed.report.read import units
from rayfed.report.read.results import Results
from rayfed.report.read.series import X_AXES, thin
from rayfed.report.read.usage import Usage

HEIGHT = 320
_MOST = 400  # points of a line
_OUTSIDE = 0.005  # share of the values at each end for which the axis is not made longer
_ROUNDING = 1e-9  # relative to the longest time


def round_times(results: Results) -> go.Figure:
    """Draw how long rounds took: for each time the share of the rounds that took no longer.

    Parameters
    ----------
    results : Results
        A result folder.

    Returns
    -------
    Figure
        A rising line for each algorithm, over all seeds; in asynchronous runs the time between two
        updates. The axis of times is logarithmic if they span a factor of 10.

    Raises
    ------
    ValueError
        If no round took any time.
    """
    values = values_of(results, lambda usage: usage.round_times)
    if not any((times > 0).any() for times in values.values()):
        raise NothingToDraw("no round took any time")
    scaled = scale(X_AXES["time_s"], max(float(times.max()) for times in values.values()))
    values = {name: times / scaled["worth"] for name, times in values.items()}
    log = spans_decades([times[times > 0] for times in values.values()])
    what = "round or update" if results.asynchronous else "round"
    title = f"time of a {what} ({scaled['unit']})"
    hover = "%{y:.0f} % took at most %{x:.3~g} " + scaled["unit"]
    return _rising(results, values, log, hover, title, "them")


def staleness(results: Results) -> go.Figure:
    """Draw how stale replies were: for each staleness the share of the replies that were no staler.

    Parameters
    ----------
    results : Results
        A result folder.

    Returns
    -------
    Figure
        A rising line for each asynchronous algorithm, over all seeds.

    Raises
    ------
    ValueError
        If no run is asynchronous.
    """
    values = values_of(results, lambda usage: usage.staleness)
    if not values:
        raise NothingToDraw("no reply has a staleness: all algorithms of this study have rounds")
    title = "staleness (updates of the model meanwhile)"
    hover = "%{y:.0f} % are at most %{x:.0f} updates old"
    return _rising(results, values, False, hover, title, "the replies")


def values_of(results: Results, what: Callable[[Usage], Floats]) -> Mapping[str, Floats]:
    """Return the values of all seeds of each algorithm that is no baseline and has any."""
    found = {
        name: np.concatenate([np.empty(0), *(what(run.usage) for run in results.usable(name))])
        for name in results.names
        if name not in results.baselines
    }
    return {name: np.sort(values) for name, values in found.items() if len(values)}


def _most(values: Floats) -> Floats:
    """Return the least and the largest of sorted values, but for half a percent at each end."""
    low = np.quantile(values, _OUTSIDE, method="lower")
    return np.array([low, np.quantile(values, 1 - _OUTSIDE, method="higher")])


def _rising(
    results: Results, values: Mapping[str, Floats], log: bool, hover: str, title: str, of: str
) -> go.Figure:
    """Return a figure of the empirical distribution of each algorithm's values, in percent."""
    styles = algorithm_styles(results)
    figure = canvas(HEIGHT, hovermode="closest", dragmode="zoom")
    for name, sorted_ in values.items():
        at = thin(np.arange(len(sorted_)), _MOST)
        # The line begins on the ground, at the least value.
        x = np.concatenate([sorted_[:1], sorted_[at]])
        y = np.concatenate([[0.0], 100 * (at + 1) / len(sorted_)]).round(3)
        outline = {**line(styles[name]), "shape": "hv"}
        as_ = {"hover": f"{plain(name)}: {hover}", "of": name, "name": plain(name)}
        marks.lines(figure, "line", x.round(6), y, outline, **as_)
    every = [_most(part[part > 0] if log else part) for part in values.values()]
    figure.update_xaxes(fitted(title, every, log))
    what = f"share of {of} (%)"
    return figure.update_yaxes(title_text=what, range=[0, 102], tickvals=[0, 25, 50, 75, 100])


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
    parts = []
    for name in competing(results, values)[:MOST_NAMED]:
        half, most = (text(_at(values[name], share)) for share in (0.5, 0.9))
        parts.append(f"{half} with {quoted(name)} (nine in ten {most})")
    return joined(parts)


def _at(values: Floats, share: float) -> float:
    """Return the least value that so large a share of the values does not exceed."""
    return float(np.quantile(values, share, method="inverted_cdf"))


class RoundTimesPanel(FigurePanel):
    """How long the rounds of each algorithm took."""

    name: ClassVar[str] = "round-times"
    section = Section.CLIENTS
    rank = 50
    draws = (round_times,)
    words = staticmethod(times_title)
    best_only = True
    keyed = True

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


class StalenessPanel(FigurePanel):
    """How stale the replies of asynchronous algorithms were."""

    name: ClassVar[str] = "staleness"
    section = Section.CLIENTS
    rank = 60
    draws = (staleness,)
    words = staticmethod(staleness_title)
    best_only = True
    keyed = True
