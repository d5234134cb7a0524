"""Drift by layer: where in the model clients disagree."""

from __future__ import annotations

from typing import ClassVar

import plotly.graph_objects as go

from rayfed.report.figures.dots import dots
from rayfed.report.figures.marks import NothingToDraw
from rayfed.report.figures.style import fitted
from rayfed.report.panels.base import FigurePanel, Section
from rayfed.report.panels.phrases import quoted
from rayfed.report.read import parts, units
from rayfed.report.read.results import Results


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
    values = parts.layers(results)
    if not len(values):
        raise NothingToDraw("no run has the drift of its layers; set evaluate.layers")
    columns = [values[name].dropna().to_numpy() for name in values]
    figure = dots(results, values, "%{x:.3~g}")
    axis = fitted("drift, in units of the layer's norm", columns)
    if axis["type"] == "linear":
        axis["range"] = [0.0, 1.05 * float(values.max().max()) or 1.0]
    return figure.update_xaxes(axis)


def title(results: Results) -> str:
    """Return which layers drift most and least, under the rival that drifts most."""
    values = parts.layers(results)
    rivals = [name for name in results.rivals if name in values] or list(values.columns)
    name = str(values[rivals].max().idxmax())
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
    words = staticmethod(title)
    best_only = True
    keyed = True
    labelled = False
    how = (
        "Layers from the input down. The drift is the root mean square distance of clients' "
        "local models from their mean after the local work of a round, over the norm of that "
        "mean; the last evaluation, mean over seeds."
    )
