"""Values by part, a row each with a dot for each algorithm: classes, layers, steps of a round."""

from __future__ import annotations

from typing import ClassVar

import plotly.graph_objects as go

from rayfed.report.figures.marks import NothingToDraw, dotted_rows
from rayfed.report.figures.style import fitted, y_range
from rayfed.report.panels.base import FigurePanel, Section
from rayfed.report.panels.phrases import competing, joined, quoted
from rayfed.report.read import breakdown, units
from rayfed.report.read.results import Results

MOST = 40
"""Rows of the figure; of more classes those are left out that models know best."""
_NAMED = 2  # steps


def classes(results: Results) -> go.Figure:
    """Draw how much of each class final models put into it, for the rows of ``fit.npz``.

    Parameters
    ----------
    results : Results
        A result folder.

    Returns
    -------
    Figure
        A row for each class, the hardest first, and a dot for each algorithm, mean over seeds; at
        most 40 classes.

    Raises
    ------
    ValueError
        If no run has a picture of classes.
    """
    values = breakdown.classes(results)
    if not len(values):
        raise NothingToDraw("no run has a picture of its classes")
    hardest = values.mean(axis=1).dropna().sort_values(kind="stable").index[:MOST]
    shown = values.loc[hardest]
    figure = dotted_rows(results, shown, "%{x:.1%}")
    extent = y_range([shown[name].to_numpy() for name in shown], log=False)
    figure.update_xaxes(
        title_text="share of the class that is right", range=extent, tickformat=".2~%"
    )
    return figure


def classes_title(results: Results) -> str:
    """Return which class is the hardest, and how much of it each algorithm has right."""
    values = breakdown.classes(results)
    rivals = competing(results, values.columns)
    hardest = str(values[rivals].mean(axis=1).idxmin())
    right = {name: float(values[name][hardest]) for name in rivals}
    order = sorted(rivals, key=lambda name: right[name], reverse=True)
    texts = [f"{units.number(100 * right[name])} % with {quoted(name)}" for name in order]
    return f"Class {hardest} is the hardest: {joined(texts)} of its rows are right"


class ClassesPanel(FigurePanel):
    """The accuracy of each class, a dot for each algorithm."""

    name: ClassVar[str] = "classes"
    section = Section.LEARNED
    rank = 10
    draws = (classes,)
    words = staticmethod(classes_title)
    best_only = True
    keyed = True

    @property
    def applies(self) -> bool:
        """Whether any run has a picture of more than two classes."""
        return len(breakdown.classes(self.results)) > 2

    @property
    def how(self) -> str:
        """How to read the figure."""
        count = len(breakdown.classes(self.results))
        some = f" The {MOST} hardest of {count} classes." if count > MOST else ""
        return (
            "Share of each class that the final model puts into it, the hardest class first; mean "
            f"over seeds, on at most 2,000 of the rows that are scored.{some}"
        )


def layers(results: Results) -> go.Figure:
    """Draw the last recorded drift of each layer: how far local models are from their mean.

    Parameters
    ----------
    results : Results
        A result folder.

    Returns
    -------
    Figure
        A row for each layer, from the input down, and a dot for each algorithm, mean over seeds.

    Raises
    ------
    ValueError
        If no run recorded any; set ``evaluate.layers``.
    """
    values = breakdown.layers(results)
    if not len(values):
        raise NothingToDraw("no run has the drift of its layers; set evaluate.layers")
    columns = [values[name].dropna().to_numpy() for name in values]
    figure = dotted_rows(results, values, "%{x:.3~g}")
    axis = fitted("drift, in units of the layer's norm", columns)
    if axis["type"] == "linear":
        axis["range"] = [0.0, 1.05 * float(values.max().max()) or 1.0]
    return figure.update_xaxes(axis)


def layers_title(results: Results) -> str:
    """Return which layers drift most and least, under the rival that drifts most."""
    values = breakdown.layers(results)
    name = str(values[competing(results, values.columns)].max().idxmax())
    drift = values[name].dropna()
    most, least = str(drift.idxmax()), str(drift.idxmin())
    text = f"Local models of {quoted(name)} differ most in layer {most}, by {_share(drift[most])}"
    if len(drift) == 1:
        return f"{text} of its norm"
    return f"{text} of its norm, and least in {least}, by {_share(drift[least])}"


def _share(value: float) -> str:
    return f"{units.number(100 * float(value))} %"


class LayersPanel(FigurePanel):
    """The drift of each layer at the end, a dot for each algorithm."""

    name: ClassVar[str] = "layers"
    section = Section.LEARNED
    rank = 20
    draws = (layers,)
    words = staticmethod(layers_title)
    best_only = True
    keyed = True
    how = (
        "Layers from the input down. The drift is the root mean square distance of clients' "
        "local models from their mean after the local work of a round, over the norm of that "
        "mean; the last evaluation, mean over seeds."
    )


def profile(results: Results) -> go.Figure:
    """Draw how long each step of a round took on the machine.

    Parameters
    ----------
    results : Results
        A result folder.

    Returns
    -------
    Figure
        A row for each step, in the order of a round, and a dot for each algorithm, mean over
        seeds.

    Raises
    ------
    ValueError
        If no run was profiled; run the study with ``--profile``.
    """
    values = breakdown.steps(results)
    if not len(values):
        raise NothingToDraw("no run was profiled; run the study with --profile")
    figure = dotted_rows(results, values, "%{x:.3~g} ms")
    most = 1.05 * float(values.max().max()) or 1.0
    figure.update_xaxes(title_text="wall-clock time of a round (ms)", range=[-0.01 * most, most])
    return figure


def profile_title(results: Results) -> str:
    """Return what took longest under the first rival, and how long a round was."""
    frame = breakdown.steps(results)
    name = competing(results, frame.columns)[0]
    taken = frame[name].drop(breakdown.MEAN_ACTOR, errors="ignore").sort_values(ascending=False)
    total = float(taken.sum())
    parts = [f"{units.share(ms / total)} {step}" for step, ms in taken.iloc[:_NAMED].items()]
    return f"A round of {quoted(name)} took {units.number(total)} ms: {joined(parts)}"


class ProfilePanel(FigurePanel):
    """The wall-clock time of each step of a round, a dot for each algorithm."""

    name: ClassVar[str] = "profile"
    section = Section.MACHINE
    rank = 0
    draws = (profile,)
    words = staticmethod(profile_title)
    keyed = True
    how = (
        "Wall-clock milliseconds of this machine for a round, on average over the rounds of "
        "each run and over seeds; none of it is simulated. Computing is that of the slowest "
        "host; sending is what passes until it is asked and has answered."
    )
