"""Trials of a search: scores, chosen values, and importance of keys."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import plotly.graph_objects as go

from rayfed.core.arrays import Floats
from rayfed.core.distribution import Distribution
from rayfed.core.errors import ScenarioError
from rayfed.report.best import Candidate, Searched, key_names, text_of
from rayfed.report.figures import charts, marks
from rayfed.report.figures.labels import plain
from rayfed.report.figures.palette import LIGHT, LineStyle
from rayfed.report.figures.style import (
    FONT_SIZE,
    algorithm_styles,
    canvas,
    column_axis,
    line,
    spans_decades,
    x_scales,
)  # fmt: skip
from rayfed.report.panels.base import FigurePanel, Section
from rayfed.report.read import units
from rayfed.report.read.curves import Curve, curve, history
from rayfed.report.read.results import Results

HEIGHT = 440
_BAND = 190  # pixels of the axes of one algorithm
_GAP = 0.75  # between those of two, in units of an axis
_ROW = 34  # pixels of a key
_HOVER = 200  # letters of a trial in a hover
_GREY = {"color": LIGHT["strip"], "width": 1}
_KEPT = 1.5  # times what the trials begin with, up to which others than the best set the scale


def _searched(of: Results | Searched) -> Searched:
    """Return the trials of a search, by its folder or as they are.

    Raises
    ------
    ScenarioError
        If the folder holds none.
    """
    if isinstance(of, Searched):
        return of
    found = Searched.of(of)
    if found is None:
        raise ScenarioError(str(of.folder), "holds no search; rayfed sweep makes one")
    return found


def trials(results: Results | Searched) -> go.Figure:
    """Draw the objective of every trial over simulated time, the best ones in colour.

    Where nothing takes time it is over rounds.

    Parameters
    ----------
    results : Results or Searched
        The result folder of a search, or its trials.
    """
    searched = _searched(results)
    recorded, column = searched.results, searched.best.aim.column
    x = "time_s" if recorded.rounds["time_s"].max() > 0 else "round"
    worth = x_scales(recorded)[x]
    styles, figure = algorithm_styles(searched.winners), canvas(HEIGHT, hovermode="closest")
    best, rest, end = [], [], 0.0
    for label in searched.labels:
        lines = [_curve(trial, x, column) for trial in searched.others(label)]
        rest += [one.mean for one in lines]
        chosen = _curve(searched.chosen(label), x, column)
        best.append(chosen.mean)
        for one in (*lines, chosen):
            end = max(end, float(one.x[-1]) / worth["worth"] if len(one.x) else 0.0)
        _add_rest(figure, label, lines, worth["worth"])
        hover = f"{_said(label, searched.values(searched.chosen(label)))}: %{{y:.3g}}"
        x_of, outline = chosen.x / worth["worth"], line(styles[label], 2.5)
        as_ = {"of": label, "name": label, "zorder": 2}
        marks.lines(figure, "mean", x_of, chosen.mean, outline, hover, **as_)
    known = _without_outliers(best, rest)
    figure.update_xaxes(title_text=worth["title"], range=[0, end or 1], showgrid=False)
    return figure.update_yaxes(column_axis(recorded.column(column), known))


def _said(label: str, values: Mapping[str, Any]) -> str:
    """Return an algorithm with the values of a trial."""
    return plain(f"{label}, {text_of(values)}", _HOVER)


def _curve(trial: Candidate, x: str, y: str) -> Curve:
    return curve([history(run) for run in trial.runs if len(run.rounds)], x, y)


def _without_outliers(best: list[Floats], rest: list[Floats]) -> list[Floats]:
    """Return the values that set the scale: not those of trials that went the wrong way."""
    starts = np.array([values[0] for values in (*best, *rest) if len(values)])
    most = _KEPT * float(np.max(np.abs(starts), initial=0.0))
    return [*best, *(values[np.abs(values) <= most] for values in rest)]


def _add_rest(figure: go.Figure, label: str, lines: list[Curve], worth: float) -> None:
    """Add trials as one thin grey trace with gaps."""
    gap = np.array([math.nan])
    x = [part for one in lines for part in (one.x / worth, gap)]
    y = [part for one in lines for part in (one.mean, gap)]
    drawn = np.concatenate([gap, *x]), np.concatenate([gap, *y])
    marks.lines(figure, "rest", *drawn, _GREY, of=label, opacity=0.7)


def coordinates(results: Results | Searched) -> go.Figure:
    """Draw each trial as a line over its values, with its score at the right.

    One group of axes an algorithm that was searched; the best trial is in its colour.

    Parameters
    ----------
    results : Results or Searched
        The result folder of a search, or its trials.
    """
    searched = _searched(results)
    labels = [label for label in searched.labels if searched.space(label)]
    if not labels:
        raise marks.NothingToDraw("nothing was searched for any algorithm")
    styles = algorithm_styles(searched.winners)
    figure = canvas(_BAND * len(labels) + 40, hovermode="closest")
    bottoms = [-(1 + _GAP) * k for k in range(len(labels))]
    for label, bottom in zip(labels, bottoms, strict=True):
        _add_axes(figure, searched, label, bottom, styles[label])
    low, high = bottoms[-1] - 0.32, 1.28
    figure.update_layout(margin={"l": 8, "r": 56, "t": 8, "b": 8})
    figure.update_xaxes(range=[-0.03, 1.03], visible=False, fixedrange=True)
    return figure.update_yaxes(range=[low, high], visible=False, fixedrange=True)


def _add_axes(
    figure: go.Figure, searched: Searched, label: str, bottom: float, style: LineStyle
) -> None:
    """Add the axes of one algorithm, and its trials."""
    space, aim = searched.space(label), searched.best.aim
    heights = _Heights(searched, label)
    at = np.linspace(0, 1, len(space) + 1)
    chosen = searched.chosen(label)
    for trial in (*searched.others(label), chosen):
        values = searched.values(trial)
        places = [held.place(values[key]) for key, held in space.items()]
        reached = "failed" if trial.failed else f"{units.number(trial.value)}"
        reached += ", pruned" if trial.pruned else ""
        y = bottom + np.array([*places, heights.of_score(searched.score(trial))])
        best = trial is chosen
        outline, part = (line(style, 3), "best") if best else (_GREY, "rest")
        hover = f"{_said(label, values)}: {reached}"
        marks.lines(figure, part, at, y, outline, hover, of=label, opacity=1.0 if best else 0.7)
    for x, name, held in zip(at, key_names(space), space.values(), strict=False):
        _add_axis(figure, float(x), bottom, _ticks(held), name)
    title = searched.results.column(aim.column).title
    _add_axis(figure, 1.0, bottom, heights.ticks, title)
    _write(figure, -0.02, bottom + 1.26, plain(label), "middle right", style.light)


class _Heights:
    """Positions of scores on the axis: the best at the top, failures below.

    Parameters
    ----------
    searched : Searched
        All trials.
    label : str
        The algorithm.
    """

    def __init__(self, searched: Searched, label: str) -> None:
        found = np.array([searched.score(trial) for trial in searched.best.rivals[label]])
        known = found[np.isfinite(found)]
        self.log = spans_decades([known])
        known = np.sort(np.log10(known) if self.log else known)
        ends = (float(known[0]), float(known[-1])) if len(known) else (0.0, 1.0)
        self.bottom, self.top = ends[::-1] if searched.best.aim.sign > 0 else ends

    def of_score(self, score: float) -> float:
        """Return the place of a score, 0 at the bottom to 1 at the top."""
        if not math.isfinite(score):
            return 0.0
        place = (math.log10(score) if self.log else score) - self.bottom
        return place / (self.top - self.bottom) if self.top != self.bottom else 1.0

    @property
    def ticks(self) -> dict[float, str]:
        """The scores at the bottom and at the top."""
        ends = [10**end if self.log else end for end in (self.bottom, self.top)]
        return {self.of_score(end): units.number(end) for end in ends}


def _ticks(held: Distribution) -> dict[float, str]:
    """Return the labels of an axis by their places."""
    if held.kind == "choice":
        return {held.place(value): _short(value) for value in held.values}
    return {held.place(value): units.number(float(value)) for value in held.values}


def _short(value: Any) -> str:
    text = value.get("name", value) if isinstance(value, dict) else value
    return plain(str(text), 20)


def _add_axis(
    figure: go.Figure, x: float, bottom: float, ticks: dict[float, str], title: str
) -> None:
    figure.add_shape(
        type="line", x0=x, x1=x, y0=bottom, y1=bottom + 1, layer="below",
        line={"color": LIGHT["strip"], "width": 1.5},
    )  # fmt: skip
    for place, text in ticks.items():
        _write(figure, x, bottom + place, text, "middle right")
    position = {0.0: "middle right", 1.0: "middle left"}.get(x, "middle center")
    above = x == 1.0  # where there is room for a long one
    _write(figure, x, bottom + (1.26 if above else -0.18), title, position, LIGHT["ink"])


def _write(
    figure: go.Figure, x: float, y: float, text: str, position: str, colour: str = LIGHT["muted"]
) -> None:
    """Write a text next to a point; the page drops annotations where it is narrow."""
    font = {"size": FONT_SIZE, "color": colour}
    marks.texts(figure, "label", [x], [y], [text], font, textposition=position)


def importance(results: Results | Searched) -> go.Figure:
    """Draw the importance of each key for the score; see `Searched.importance`.

    Parameters
    ----------
    results : Results or Searched
        The result folder of a search, or its trials.
    """
    searched = _searched(results)
    styles = algorithm_styles(searched.winners)
    found = {label: searched.importance(label) for label in searched.labels}
    shares = {label: share for label, share in found.items() if share}
    if not shares:
        raise marks.NothingToDraw("the trials are too few to tell which key matters")
    rows = sum(map(len, shares.values()))
    figure = canvas(_ROW * rows + 80, hovermode="closest")
    names: list[str] = []
    for label, share in shares.items():
        of = f" · {label}" if len(shares) > 1 else ""
        places = [*range(len(names), len(names) + len(share))]
        names += [name + of for name in key_names(share)]
        marks.bars(
            figure, "share", list(share.values()), places, styles[label].light, "", of=label,
            orientation="h", width=0.5, cliponaxis=False, textfont={"color": LIGHT["muted"]},
            text=[f"{100 * part:.0f} %" for part in share.values()], textposition="outside",
        )  # fmt: skip
    figure.update_layout(margin={"l": 150, "r": 48, "t": 8, "b": 52}, barmode="overlay")
    figure.update_xaxes(range=[0, 1], tickformat=".0%", title_text="share of the importance")
    return charts.name_rows(figure, names).update_yaxes(showgrid=False)


class _SearchPanel(FigurePanel):
    """Base of the panels of a search, which are made from all its trials."""

    @property
    def subject(self) -> tuple[Searched]:
        """All trials."""
        if self.source.searched is None:
            raise marks.NothingToDraw("the folder holds no search")
        return (self.source.searched,)


class TrialsPanel(_SearchPanel):
    """A line for each trial over simulated time; the best of each algorithm in its colour."""

    name: ClassVar[str] = "trials"
    section = Section.SEARCH
    rank = 0
    draws = (trials,)
    heading = "Scores of the trials"
    keyed = True

    @property
    def how(self) -> str:
        """Caption of the figure."""
        count = sum(map(len, self.subject[0].best.rivals.values()))
        return (
            f"Each of {count} trials is a line, the best of each algorithm in its colour: the mean "
            "over seeds. Lines that leave the figure at the top got worse. All other figures of "
            "this page show the best trials alone."
        )


class CoordinatesPanel(_SearchPanel):
    """Parallel coordinates: a line for each trial over the values that it chose."""

    name: ClassVar[str] = "coordinates"
    section = Section.SEARCH
    rank = 10
    draws = (coordinates,)
    heading = "Values of the trials"
    how = (
        "A line is a trial: it crosses each axis at the value that it chose, and the last one "
        "at what it reached, the best at the top and failures at the bottom. A best line near "
        "the end of an axis says that the range should be wider."
    )


class ImportancePanel(_SearchPanel):
    """A bar for each key: its importance for the score."""

    name: ClassVar[str] = "importance"
    section = Section.SEARCH
    rank = 20
    draws = (importance,)
    heading = "Importance of each key"
    how = (
        "How much the values of a key in the best quarter of the trials differ from those in all "
        "(PED-ANOVA of Optuna). The shares add up to 100 %, also where chance alone decides."
    )
