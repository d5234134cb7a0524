"""Drift of local models by layer."""

from __future__ import annotations

from typing import ClassVar

import plotly.graph_objects as go

from rayfed.report.figures import charts
from rayfed.report.figures.marks import NothingToDraw
from rayfed.report.figures.style import fitted
from rayfed.report.panels.base import FigurePanel, Section
from rayfed.report.read import breakdown
from rayfed.report.read.results import Results


def layers(results: Results) -> go.Figure:
    """Draw the last recorded drift of each layer: distance of local models from their mean.

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
    NothingToDraw
        If no run recorded any; give ``evaluate.measures: [layers]``.
    """
    values = breakdown.layers(results)
    if not len(values):
        raise NothingToDraw("no run has the drift of its layers; give evaluate.measures: [layers]")
    drifts = [values[name].dropna().to_numpy() for name in values]
    axis = fitted("drift, in units of the layer's norm", drifts)
    if axis["type"] == "linear":
        axis["range"] = [0.0, 1.05 * float(values.max().max()) or 1.0]
    return charts.dotted_rows(results, values, "%{x:.3~g}").update_xaxes(axis)


class LayersPanel(FigurePanel):
    """The drift of each layer at the end, a dot for each algorithm."""

    name: ClassVar[str] = "layers"
    section = Section.LEARNED
    rank = 20
    draws = (layers,)
    heading = "Drift of local models by layer"
    best_only = True
    keyed = True
    how = (
        "Layers from the input down. The drift is the root mean square distance of local models "
        "from their mean at the end of a round's local steps, over the norm of that mean; last "
        "evaluation, mean over seeds."
    )
