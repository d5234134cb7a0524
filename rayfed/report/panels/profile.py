"""Wall time of a round by step."""

from __future__ import annotations

from typing import ClassVar

import plotly.graph_objects as go

from rayfed.report.figures import charts
from rayfed.report.figures.marks import NothingToDraw
from rayfed.report.panels.base import FigurePanel, Section
from rayfed.report.read import breakdown
from rayfed.report.read.results import Results


def profile(results: Results) -> go.Figure:
    """Draw the wall time of each step of a round.

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
    NothingToDraw
        If no run was profiled; run the study with ``--profile``.
    """
    values = breakdown.steps(results)
    if not len(values):
        raise NothingToDraw("no run was profiled; run the study with --profile")
    most = 1.05 * float(values.max().max()) or 1.0
    axis = {"title_text": "wall-clock time of a round (ms)", "range": [-0.01 * most, most]}
    return charts.dotted_rows(results, values, "%{x:.3~g} ms").update_xaxes(axis)


class ProfilePanel(FigurePanel):
    """The wall-clock time of each step of a round, a dot for each algorithm."""

    name: ClassVar[str] = "profile"
    section = Section.MACHINE
    rank = 0
    draws = (profile,)
    heading = "Wall time of a round by step"
    keyed = True
    how = (
        "Wall-clock milliseconds of a round on this machine, mean over the rounds of each run and "
        "over seeds; simulated time has no part in it. Computing is the time of the slowest host; "
        "sending ends when all requests and replies have passed."
    )
