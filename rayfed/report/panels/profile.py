"""Wall-clock time of the machine, of studies that were run with ``--profile``."""

from __future__ import annotations

from typing import ClassVar

import plotly.graph_objects as go

from rayfed.report.figures.dots import dots
from rayfed.report.figures.marks import NothingToDraw
from rayfed.report.panels.base import FigurePanel, Section
from rayfed.report.panels.phrases import joined, quoted
from rayfed.report.read import profiles, units
from rayfed.report.read.results import Results

_NAMED = 2  # steps


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
    values = profiles.steps(results)
    if not len(values):
        raise NothingToDraw("no run was profiled; run the study with --profile")
    figure = dots(results, values, "%{x:.3~g} ms")
    most = 1.05 * float(values.max().max()) or 1.0
    figure.update_xaxes(title_text="wall-clock time of a round (ms)", range=[-0.01 * most, most])
    return figure


def title(results: Results) -> str:
    """Return what took longest under the first rival, and how long a round was."""
    frame = profiles.steps(results)
    name = next((name for name in results.rivals if name in frame), str(frame.columns[0]))
    taken = frame[name].drop(profiles.MEAN_ACTOR, errors="ignore").sort_values(ascending=False)
    total = float(taken.sum())
    parts = [f"{units.share(ms / total)} {step}" for step, ms in taken.iloc[:_NAMED].items()]
    return f"A round of {quoted(name)} took {units.number(total)} ms: {joined(parts)}"


class ProfilePanel(FigurePanel):
    """The wall-clock time of each step of a round, a dot for each algorithm."""

    name: ClassVar[str] = "profile"
    section = Section.MACHINE
    rank = 0
    draws = (profile,)
    words = staticmethod(title)
    keyed = True
    labelled = False
    how = (
        "Wall-clock milliseconds of this machine for a round, on average over the rounds of "
        "each run and over seeds; none of it is simulated. Computing is that of the slowest "
        "host; sending is what passes until it is asked and has answered."
    )
