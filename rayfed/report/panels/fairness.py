"""Quality of the model for each client: sorted, and by client speed."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.report.figures import charts, marks
from rayfed.report.figures.clients import FAULTY, MOST_DOTS, TENTHS, tenths_across
from rayfed.report.figures.palette import LIGHT
from rayfed.report.figures.style import algorithm_styles, canvas, fitted, y_range
from rayfed.report.panels.base import FigurePanel, RunPanel, Section
from rayfed.report.read.results import Results, RunRecord

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
        One line an algorithm; the worst tenth of clients is shaded, faulty clients are crosses.

    Raises
    ------
    NothingToDraw
        If no client has a recorded value.
    """
    column = column or fairness_column(results)
    clients = ranked(results, column)
    if not len(clients):
        raise marks.NothingToDraw(f"no client has a recorded {column}")
    means = _means(clients)
    # Losses differ by decades where one algorithm is much further than another.
    log = None if column.endswith("loss") else False
    y = fitted(f"{column} of the client", [means["y"].to_numpy()], log)
    title = "clients, worst to best model (%)"
    x = {"title_text": title, "range": [0, 100], "dtick": 20, "showgrid": False}
    x["unifiedhovertitle_text"] = "worst %{x:.0f} % of the clients"
    figure = charts.lines(results, means, HEIGHT, x, y, hoverdistance=-1)
    figure.add_vrect(x0=0, x1=10, fillcolor=LIGHT["shade"], line_width=0, layer="below")
    styles = algorithm_styles(results)
    for name, rows in charts.by_name(clients[clients["faulty"]]):
        rim = {"width": 2, "color": styles[name].light}
        marker = {"symbol": FAULTY, "size": 9, "color": styles[name].light, "line": rim}
        hover = "client %{customdata[0]}, seed %{customdata[1]}: %{y:.3g}"
        charts.dots(figure, "faulty", rows, marker, hover, ("client", "seed"), of=name)
    return figure


def fairness_column(results: Results) -> str:
    """Return the compared column: accuracy where some run has it, else loss."""
    clients = results.clients
    known = "accuracy" in clients and bool(clients["accuracy"].notna().any())
    return "accuracy" if known else "loss"


def ranked(results: Results, column: str) -> pd.DataFrame:
    """Return the clients of each run from the worst model quality to the best.

    Returns
    -------
    DataFrame
        ``name`` and ``seed`` of the run, ``x``, the share of clients with a worse value, in
        percent, the value ``y``, the name of the ``client``, and whether it is ``faulty``.
    """
    frames = [pd.DataFrame()]
    for run in (run for name in results.names for run in results.usable(name)):
        if column in run.clients:
            values = run.clients.set_index("client")[column].astype(float)
            values = values[np.isfinite(values)]
            values = values.sort_values(ascending=not column.endswith("loss"), kind="stable")
            about = {"name": run.name, "seed": run.seed, "client": run.called(values.index)}
            places = {"x": np.linspace(0, 100, len(values)), "y": values.to_numpy()}
            faulty = values.index.isin(list(run.faults))
            frames.append(pd.DataFrame({**about, **places, "faulty": faulty}))
    return pd.concat(frames)


def _means(clients: pd.DataFrame) -> pd.DataFrame:
    """Return ``name``, ``x`` and ``y`` at evenly spaced shares of the clients, means over seeds."""
    at = np.linspace(0, 100, _POINTS)
    curves = [
        pd.DataFrame({"name": name, "x": at, "y": np.interp(at, rows["x"], rows["y"])})
        for (name, _), rows in clients.groupby(["name", "seed"], sort=False)
    ]
    return pd.concat(curves).groupby(["name", "x"], sort=False, as_index=False).mean()


class FairnessPanel(FigurePanel):
    """A line for each algorithm over the clients in order of their accuracy or loss."""

    name: ClassVar[str] = "fairness"
    section = Section.FAIRNESS
    rank = 30
    draws = (fairness,)
    heading = "Quality of the model for each client"
    best_only = True
    keyed = True


def pace(results: Results, name: str, seed: int) -> go.Figure:
    """Draw the quality of the final model for each client against its seconds per step.

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
        the 10th to the 90th percentile; ``layout.meta["note"]`` has their number.

    Raises
    ------
    NothingToDraw
        If the speed and the accuracy (or loss) of no client are recorded.
    """
    run = results.run(name, seed)
    measure, clients = served(run)
    if not len(clients):
        raise marks.NothingToDraw.of(run, "has no client with a recorded speed and quality")
    add = _add_tenths if len(clients) > MOST_DOTS else _add_clients
    figure = canvas(HEIGHT, hovermode="closest")
    add(figure, clients, algorithm_styles(results)[name].light, measure)
    return figure.update_yaxes(title_text=f"{measure} of the client")


def served(run: RunRecord) -> tuple[str, pd.DataFrame]:
    """Return the measure of quality, and the clients that have it, the fastest first.

    Returns
    -------
    str
        "accuracy", or "loss" without any.
    DataFrame
        The ``name`` of each client, its seconds per step ``x`` and its quality ``y``.
    """
    clients = run.clients_by_speed
    measure = "accuracy" if clients["accuracy"].notna().any() else "loss"
    clients = clients[clients[measure].notna() & (clients["speed_s"] > 0)]
    places = {"x": clients["speed_s"], "y": clients[measure], "name": run.called(clients.index)}
    return measure, pd.DataFrame(places)


def _add_clients(figure: go.Figure, clients: pd.DataFrame, colour: str, measure: str) -> None:
    hover = f"client %{{customdata[0]}}<br>%{{x:.3~g}} s a step, {measure} %{{y:.3~g}}"
    marker = {"size": 9, "color": colour, "opacity": 0.85}
    charts.dots(figure, "clients", clients, marker, hover, ["name"])
    figure.update_xaxes(fitted("time of a local step (s)", [clients["x"].to_numpy()]))
    figure.update_layout(meta={"note": ""})


def _add_tenths(figure: go.Figure, clients: pd.DataFrame, colour: str, measure: str) -> None:
    """Add the mean of each tenth of the clients, and a line along which most of them are."""
    groups = clients["y"].groupby(np.arange(len(clients)) * 10 // len(clients))
    bands = pd.DataFrame({"y": groups.mean(), "low": groups.quantile(0.1)})
    bands = bands.assign(high=groups.quantile(0.9), x=TENTHS)
    ends, grey = bands[["low", "high"]], {"color": LIGHT["strip"], "width": 3}
    marks.lines(figure, "range", *marks.segments(TENTHS, ends), grey)
    hover = f"mean {measure} %{{y:.3~g}}, most %{{customdata[0]:.3~g}} to %{{customdata[1]:.3~g}}"
    charts.dots(figure, "density", bands, {"size": 10, "color": colour}, hover, ["low", "high"])
    figure.update_yaxes(range=y_range([bands["y"].to_numpy(), ends.to_numpy().ravel()], log=False))
    tenths_across(figure, len(clients))


class PacePanel(RunPanel):
    """The accuracy of each client, or its loss, against the time of its local steps."""

    name: ClassVar[str] = "pace"
    section = Section.FAIRNESS
    rank = 40
    draws = (pace,)
    heading = "Quality of the model by client speed"
    clickable = True

    @property
    def applies(self) -> bool:
        """Whether clients of any run differ in speed, with recorded quality."""
        return any(served(run)[1]["x"].nunique() > 1 for run in self.source.runs)

    @property
    def how(self) -> str:
        """Caption of the figure."""
        if any(len(served(run)[1]) > MOST_DOTS for run in self.source.runs):
            return (
                "Tenths of the clients by speed. Dots are means; grey lines reach from the 10th to "
                "the 90th percentile. Shows the run chosen above."
            )
        return "One dot for each client. Shows the run chosen above."
