"""Service of the clients by the model, from the worst served to the best."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import plotly.graph_objects as go

from rayfed.core.arrays import Floats
from rayfed.report.figures import marks
from rayfed.report.figures.clients import FAULTY
from rayfed.report.figures.labels import label_ends
from rayfed.report.figures.palette import LIGHT
from rayfed.report.figures.style import algorithm_styles, canvas, fitted, line
from rayfed.report.panels.base import FigurePanel, Section
from rayfed.report.panels.phrases import MOST_NAMED, joined, quoted
from rayfed.report.read import units
from rayfed.report.read.results import Results

HEIGHT = 380
_POINTS = 201


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
    figure = canvas(HEIGHT, hovermode="x unified", hoverdistance=-1)
    curves = {name: sorted_clients(results, name, column) for name in results.names}
    drawn = {name: values for name, values in curves.items() if len(values)}
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
    values = {name: worst_tenth(results, name, column) for name in results.rivals}
    known = {name: value for name, value in values.items() if math.isfinite(value)}
    if not known:
        return "No values per client are recorded"
    order = sorted(known, key=lambda name: known[name], reverse=column == "accuracy")
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

    @property
    def applies(self) -> bool:
        """Whether a loss or an accuracy of single clients is recorded."""
        clients = self.results.clients
        return any(c in clients and clients[c].notna().any() for c in ("accuracy", "loss"))

    @property
    def has_faulty(self) -> bool:
        """Whether some clients are faulty."""
        return any(run.faults for name in self.results.names for run in self.results.usable(name))

    @property
    def has_personal(self) -> bool:
        """Whether some clients are served by a model of their own."""
        return "personal_accuracy" in self.results.rounds
