"""Service of the clients by the model: from the worst served to the best, and by their speed."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.core.arrays import Floats
from rayfed.report.figures import marks
from rayfed.report.figures.clients import FAULTY, MOST_DOTS, TENTHS, fifth, tenths_across
from rayfed.report.figures.labels import label_ends
from rayfed.report.figures.marks import NothingToDraw
from rayfed.report.figures.palette import LIGHT
from rayfed.report.figures.style import algorithm_styles, canvas, fitted, line, y_range
from rayfed.report.panels.base import FigurePanel, RunPanel, Section
from rayfed.report.panels.phrases import MOST_NAMED, competing, joined, quoted
from rayfed.report.read import units
from rayfed.report.read.results import Results, RunRecord

HEIGHT = 380
_POINTS = 201
_PACE_HEIGHT = 380


def fairness(results: Results, column: str | None = None) -> go.Figure:
    """Draw a value of every client, from the worst to the best, mean over seeds.

    Parameters
    ----------
    results : Results
        A result folder.
    column : str, optional
        A column of the clients. If None: their accuracy or, where there is none, their loss.

    Returns
    -------
    Figure
        One line an algorithm; the worst tenth of clients is shaded.
    """
    column = column or fairness_column(results)
    curves = {name: sorted_clients(results, name, column) for name in results.names}
    drawn = {name: values for name, values in curves.items() if len(values)}
    if not drawn:
        raise NothingToDraw(f"no client has a recorded {column}")
    figure = canvas(HEIGHT, hovermode="x unified", hoverdistance=-1)
    styles, at = algorithm_styles(results), np.linspace(0, 100, _POINTS)
    for name, values in drawn.items():
        as_ = {"of": name, "name": name, "hovertemplate": "%{y:.3g}"}
        marks.lines(figure, "mean", at, values, line(styles[name]), **as_)
        _add_faulty(figure, results, name, column, styles[name].light)
    figure.add_vrect(x0=0, x1=10, fillcolor=LIGHT["shade"], line_width=0, layer="below")
    # Losses differ by decades where one algorithm is much further than another.
    log = None if column.endswith("loss") else False
    axis = fitted(f"{column} of the client", list(drawn.values()), log)
    figure.update_xaxes(title_text="clients, from the worst served to the best (%)", range=[0, 100])
    figure.update_xaxes(showgrid=False, dtick=20)
    figure.update_layout(xaxis_unifiedhovertitle_text="the %{x:.0f} % worst served")
    figure.update_yaxes(axis)
    label_ends(figure, {n: float(v[-1]) for n, v in drawn.items()}, styles)
    return figure


def _add_faulty(figure: go.Figure, results: Results, name: str, column: str, colour: str) -> None:
    """Add a cross for each faulty client of each run, where it stands among all."""
    x, y, said = [], [], []
    for run in results.usable(name):
        if column not in run.clients or not run.faults:
            continue
        known = run.clients.set_index("client")[column].astype(float).dropna()
        order = known.sort_values(ascending=not column.endswith("loss"), kind="stable")
        place = np.linspace(0, 100, len(order)) if len(order) > 1 else np.zeros(1)
        for at, (client, value) in zip(place, order.items(), strict=True):
            if client in run.faults:
                x.append(float(at))
                y.append(value)
                said.append(f"client {run.called([client])[0]}, seed {run.seed}")
    if x:
        marker = {"symbol": FAULTY, "size": 9, "color": colour}
        marker["line"] = {"width": 2, "color": colour}
        marks.dots(
            figure, "faulty", x, y, marker, of=name, text=said,
            hovertemplate="%{text}: %{y:.3g}<extra></extra>",
        )  # fmt: skip


def fairness_column(results: Results) -> str:
    """Return what is compared: accuracy where some run has it, else loss."""
    clients = results.clients
    known = "accuracy" in clients and bool(clients["accuracy"].notna().any())
    return "accuracy" if known else "loss"


def client_values(results: Results, name: str, column: str) -> list[Floats]:
    """Return the values of the clients of each run, worst first; runs without any left out."""
    runs = []
    for run in results.usable(name):
        if column not in run.clients:
            continue
        values = run.clients[column].to_numpy(dtype=float, na_value=np.nan)
        values = np.sort(values[np.isfinite(values)])
        if len(values):
            runs.append(values[::-1] if column.endswith("loss") else values)
    return runs


def sorted_clients(results: Results, name: str, column: str) -> Floats:
    """Return the mean over seeds of the sorted values at evenly spaced shares of the clients."""
    runs = client_values(results, name, column)
    if not runs:
        return np.empty(0)
    at = np.linspace(0, 1, _POINTS)
    curves = [np.interp(at, np.linspace(0, 1, len(v)) if len(v) > 1 else [0], v) for v in runs]
    mean: Floats = np.mean(curves, axis=0)
    return mean


def worst_tenth(results: Results, name: str, column: str) -> float:
    """Return the mean value of the worst tenth of clients (at least one), mean over seeds."""
    runs = client_values(results, name, column)
    if not runs:
        return float("nan")
    return float(np.mean([values[: max(1, -(-len(values) // 10))].mean() for values in runs]))


def title(results: Results) -> str:
    """Return how the worst-served tenth of clients fares under each algorithm."""
    column = fairness_column(results)
    values = {name: worst_tenth(results, name, column) for name in results.names}
    known = {name: value for name, value in values.items() if math.isfinite(value)}
    rivals = competing(results, known)
    order = sorted(rivals, key=lambda name: known[name], reverse=column == "accuracy")
    texts = [f"{units.number(known[name])} with {quoted(name)}" for name in order[:MOST_NAMED]]
    text = f"The worst-served tenth of the clients has {column} {joined(texts)}"
    honest = honest_mean(results, order[0], column)
    if math.isfinite(honest):
        text += f"; the honest have {units.number(honest)} on average with {quoted(order[0])}"
    return text


def honest_mean(results: Results, name: str, column: str) -> float:
    """Return the mean over honest clients, mean over seeds; NaN where none is faulty."""
    means = []
    for run in results.usable(name):
        if column in run.clients and run.faults:
            honest = ~run.clients["client"].isin(list(run.faults))
            means.append(float(run.clients.loc[honest, column].astype(float).mean()))
    return float(np.mean(means)) if means else float("nan")


class FairnessPanel(FigurePanel):
    """A line for each algorithm over the clients in order of their accuracy or loss."""

    name: ClassVar[str] = "fairness"
    section = Section.FAIRNESS
    rank = 30
    draws = (fairness,)
    words = staticmethod(title)
    best_only = True
    keyed = True


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
        raise NothingToDraw.of(run, "does not say who is fast and how well served")
    colour = algorithm_styles(results)[name].light
    figure = canvas(_PACE_HEIGHT, hovermode="closest")
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
    ends, grey = np.column_stack([low, high]), {"color": LIGHT["strip"], "width": 3}
    marks.lines(figure, "range", *marks.segments(TENTHS, ends), grey)
    hover = f"mean {measure} %{{y:.3~g}}, most %{{customdata[0]:.3~g}} to %{{customdata[1]:.3~g}}"
    marker = {"size": 10, "color": colour}
    marks.dots(figure, "density", TENTHS, mean, marker, hover, customdata=ends)
    figure.update_yaxes(range=y_range([low, mean, high], log=False))
    tenths_across(figure, len(values))


def pace_title(run: RunRecord) -> str:
    """Return how the slowest fifth of the clients is served, and the others."""
    measure, clients = served(run)
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
    words = staticmethod(pace_title)
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
