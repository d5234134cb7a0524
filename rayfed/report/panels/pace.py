"""Service of slow clients against that of fast ones."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.report.figures import marks
from rayfed.report.figures.clients import MOST_DOTS, TENTHS, fifth, tenths_across
from rayfed.report.figures.marks import NothingToDraw
from rayfed.report.figures.palette import LIGHT
from rayfed.report.figures.style import algorithm_styles, canvas, fitted, y_range
from rayfed.report.panels.base import RunPanel, Section
from rayfed.report.panels.phrases import quoted
from rayfed.report.read import units
from rayfed.report.read.results import Results, RunRecord

HEIGHT = 380


def pace(results: Results, name: str, seed: int) -> go.Figure:
    """Draw how well the final model serves each client against the time that its steps take.

    Parameters
    ----------
    results : Results
        A result folder.
    name : str
        The algorithm.
    seed : int
        The seed.

    Returns
    -------
    Figure
        A dot a client. Of more than 200 the means of tenths of them by speed, with a line from
        the 10th to the 90th percentile; ``layout.meta["note"]`` says so.

    Raises
    ------
    ValueError
        If the speed and the accuracy (or loss) of no client are recorded.
    """
    run = results.run(name, seed)
    measure, clients = served(run)
    if not len(clients):
        raise NothingToDraw(
            f"the run of {name}, seed {seed}, does not say who is fast and who served"
        )
    colour = algorithm_styles(results)[name].light
    figure = canvas(HEIGHT, hovermode="closest")
    if len(clients) > MOST_DOTS:
        _add_tenths(figure, clients[measure], colour, measure)
    else:
        _add_clients(figure, run, clients, colour, measure)
    return figure.update_yaxes(title_text=f"{measure} of the client")


def served(run: RunRecord) -> tuple[str, pd.DataFrame]:
    """Return "accuracy", or "loss" without any, and the clients that have it, the fastest first."""
    clients = run.clients_by_speed
    measure = "accuracy" if clients["accuracy"].notna().any() else "loss"
    return measure, clients[clients[measure].notna() & (clients["speed_s"] > 0)]


def _add_clients(
    figure: go.Figure, run: RunRecord, clients: pd.DataFrame, colour: str, measure: str
) -> None:
    speeds, values = clients["speed_s"].to_numpy(), clients[measure].to_numpy()
    names = [[name] for name in run.called(clients.index)]
    hover = f"client %{{customdata[0]}}<br>%{{x:.3~g}} s a step, {measure} %{{y:.3~g}}"
    marker = {"size": 9, "color": colour, "opacity": 0.85}
    marks.dots(figure, "clients", speeds, values, marker, hover, customdata=names)
    figure.update_xaxes(fitted("time of a local step (s)", [speeds]))
    figure.update_layout(meta={"note": ""})


def _add_tenths(figure: go.Figure, values: pd.Series, colour: str, measure: str) -> None:
    """Add the mean of each tenth of the clients, and a line along which most of them are."""
    groups = values.groupby(np.arange(len(values)) * 10 // len(values))
    measures = groups.quantile(0.1), groups.mean(), groups.quantile(0.9)
    low, mean, high = (part.to_numpy(float) for part in measures)
    ends = np.column_stack([low, high, np.full(10, np.nan)])
    grey = {"color": LIGHT["strip"], "width": 3}
    marks.lines(figure, "range", np.repeat(TENTHS, 3), ends.ravel(), grey)
    hover = f"mean {measure} %{{y:.3~g}}, most %{{customdata[0]:.3~g}} to %{{customdata[1]:.3~g}}"
    marker = {"size": 10, "color": colour}
    marks.dots(figure, "density", TENTHS, mean, marker, hover, customdata=ends[:, :2])
    figure.update_yaxes(range=y_range([low, mean, high], log=False))
    tenths_across(figure, len(values))


def title(run: RunRecord) -> str:
    """Return how the slowest fifth of the clients is served, and the others."""
    measure, clients = served(run)
    if len(clients) < 2:
        return "Who is fast and how well served is not recorded for this run"
    split = len(clients) - fifth(len(clients))
    others, slow = (
        clients[measure].iloc[part].mean() for part in (slice(split), slice(split, None))
    )
    return (
        f"With {quoted(run.name)} the slowest fifth of the clients has {measure} "
        f"{units.number(slow)} on average, the others {units.number(others)}"
    )


class PacePanel(RunPanel):
    """The accuracy of each client, or its loss, against the time of its local steps."""

    name: ClassVar[str] = "pace"
    section = Section.FAIRNESS
    rank = 40
    draws = (pace,)
    words = staticmethod(title)
    clickable = True

    @property
    def applies(self) -> bool:
        """Whether the clients of any run differ in speed, and it is known how they are served."""
        return any(served(run)[1]["speed_s"].nunique() > 1 for run in self.source.runs)

    @property
    def how(self) -> str:
        """How to read the figure."""
        if any(len(served(run)[1]) > MOST_DOTS for run in self.source.runs):
            return (
                "Tenths of the clients by speed: the dot is the mean, the grey line reaches from "
                "the 10th to the 90th percentile. Shows the run chosen above."
            )
        return "One dot for each client. Shows the run chosen above."
