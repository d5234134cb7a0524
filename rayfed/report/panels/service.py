"""Service of the clients: by the model, by their speed, and by models of their own."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.core.arrays import Floats
from rayfed.report.figures import marks
from rayfed.report.figures.clients import (
    FAULTY,
    MOST_DOTS,
    TENTHS,
    clients_across,
    clients_over_rounds,
    tenths_across,
)
from rayfed.report.figures.labels import label_ends
from rayfed.report.figures.palette import LIGHT, LineStyle
from rayfed.report.figures.style import (
    NAMED,
    algorithm_styles,
    canvas,
    colorbar,
    fade,
    fitted,
    line,
    powers,
    spans_decades,
    y_range,
)
from rayfed.report.panels.base import FigurePanel, Panel, RunPanel, Section, figure_json, short
from rayfed.report.read import personal as own_models
from rayfed.report.read import units
from rayfed.report.read.curves import thin
from rayfed.report.read.results import Results, RunRecord

HEIGHT = 380
_POINTS = 201
_OWN_HEIGHT = 360
SINGLE = 60  # clients up to which each has a dot for its own model, and a row in a map
_BANDS = 40  # groups of clients beyond, in a map
_GROUPS, _MOST_POINTS = 20, 200  # of a curve of own models
MOST_CELLS = 60_000  # of the maps of own models over rounds of all runs together


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
        raise marks.NothingToDraw(f"no client has a recorded {column}")
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
    """Return the compared column: accuracy where some run has it, else loss."""
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
        the 10th to the 90th percentile; ``layout.meta["note"]`` says so.

    Raises
    ------
    ValueError
        If the speed and the accuracy (or loss) of no client are recorded.
    """
    run = results.run(name, seed)
    measure, clients = served(run)
    if not len(clients):
        raise marks.NothingToDraw.of(run, "does not say who is fast and how well served")
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
    ends, grey = np.column_stack([low, high]), {"color": LIGHT["strip"], "width": 3}
    marks.lines(figure, "range", *marks.segments(TENTHS, ends), grey)
    hover = f"mean {measure} %{{y:.3~g}}, most %{{customdata[0]:.3~g}} to %{{customdata[1]:.3~g}}"
    marker = {"size": 10, "color": colour}
    marks.dots(figure, "density", TENTHS, mean, marker, hover, customdata=ends)
    figure.update_yaxes(range=y_range([low, mean, high], log=False))
    tenths_across(figure, len(values))


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
        return any(served(run)[1]["speed_s"].nunique() > 1 for run in self.source.runs)

    @property
    def how(self) -> str:
        """Caption of the figure."""
        if any(len(served(run)[1]) > MOST_DOTS for run in self.source.runs):
            return (
                "Tenths of the clients by speed: the dot is the mean, the grey line reaches from "
                "the 10th to the 90th percentile. Shows the run chosen above."
            )
        return "One dot for each client. Shows the run chosen above."


def personal(results: Results, name: str, seed: int) -> go.Figure:
    """Draw the quality of each client's own model against that of the shared one.

    Parameters
    ----------
    results : Results
        A result folder.
    name : str
        The algorithm.
    seed : int
        The seed; its run must have models of the clients' own.

    Returns
    -------
    Figure
        Of few clients two joined dots each, of many a line with a band; and a level line at the
        last value of the global model as a whole, if there is one.

    Raises
    ------
    ValueError
        If the run has no models of the clients' own.
    """
    run = _run_with_models(results, name, seed)
    clients, measure = own_models.ends(run), own_models.measure(run)
    style = algorithm_styles(results)[name]
    figure = canvas(_OWN_HEIGHT, hovermode="closest")
    whole = own_models.whole(run)
    level = np.nan if whole is None else whole
    values = np.append(clients[["own", "shared"]].to_numpy(float), level)
    known = values[np.isfinite(values)]
    axis = fitted(f"{measure} of the client", [known], None if measure == "loss" else False)
    figure.update_yaxes(axis)
    figure.update_xaxes(showgrid=False)
    add = _add_dots if len(clients) <= SINGLE else _add_curves
    add(figure, clients, measure, style)
    if whole is not None:
        low, high = figure.layout.xaxis.range
        across = np.linspace(low, high, 21)  # a hover needs points
        dashed = {"color": LIGHT["ink"], "width": 1.5, "dash": "9px,4px"}
        hover = f"{measure} of the global model: %{{y:.3~g}}"
        marks.lines(figure, "global", across, np.full(21, whole), dashed, hover)
    return figure


def _add_dots(figure: go.Figure, clients: pd.DataFrame, measure: str, style: LineStyle) -> None:
    at = np.arange(len(clients))
    grey = {"color": LIGHT["strip"], "width": 3}
    marks.lines(figure, "change", *marks.segments(at, clients[["own", "shared"]]), grey)
    few = len(clients) <= NAMED
    for part in ("shared", "own"):
        colours = [style.light if asked else LIGHT["muted"] for asked in clients["asked"]]
        fill = colours if part == "own" else LIGHT["background"]
        rim = {"color": colours, "width": 2}
        marks.dots(
            figure, part, at.tolist(), clients[part].tolist(),
            {"size": 11 if few else 8, "color": fill, "line": rim, "opacity": 1},
            _hover(clients, measure), customdata=_customdata(clients),
        )  # fmt: skip
    title = "client, the worst served by its own model first"
    clients_across(figure, clients["name"].tolist(), title)


def _hover(clients: pd.DataFrame, measure: str) -> str:
    """Return the text of a hover over a client, from its `_customdata`."""
    text = f"client %{{customdata[0]}}<br>{measure} %{{customdata[1]:.3~g}} with its own model"
    if clients["shared"].notna().any():
        text += ", %{customdata[2]:.3~g} with the shared one"
    return text + "%{customdata[3]}"


def _customdata(clients: pd.DataFrame) -> list[list[Any]]:
    asked = ["" if asked else "<br>never asked" for asked in clients["asked"]]
    values = clients[["own", "shared"]].to_numpy(float)
    return [
        [client, *short(row, 4), text]
        for client, row, text in zip(clients["name"].tolist(), values, asked, strict=True)
    ]


def _add_curves(figure: go.Figure, clients: pd.DataFrame, measure: str, style: LineStyle) -> None:
    """Add a line of clients' own models and a band of the shared one for the same clients."""
    own_values, shared = (clients[part].to_numpy(float) for part in ("own", "shared"))
    if np.isfinite(shared).any():
        groups = np.array_split(shared, _GROUPS)
        edges = [100 * k / _GROUPS for k in range(_GROUPS + 1)]
        low, middle, high = (
            [float(np.nanquantile(group, q)) for group in (*groups, groups[-1])]
            for q in (0.1, 0.5, 0.9)
        )
        edge: dict[str, Any] = {"width": 0, "color": LIGHT["waiting"]}
        dashed = {"width": 1.5, "color": LIGHT["ink"], "dash": "3px,3px"}
        lines = (("low", low, edge), ("high", high, edge), ("shared", middle, dashed))
        for part, y, outline in lines:
            band = {"fill": "tonexty", "fillcolor": LIGHT["waiting"]} if part == "high" else {}
            marks.lines(figure, part, edges, y, outline | {"shape": "hv"}, **band)
    at = thin(np.arange(len(clients)), _MOST_POINTS)
    marks.lines(
        figure, "own", (100 * (at + 0.5) / len(clients)).tolist(), own_values[at].tolist(),
        {"color": style.light, "width": 2.5}, _hover(clients, measure),
        customdata=_customdata(clients.iloc[at]),
    )  # fmt: skip
    figure.update_xaxes(title_text="clients, the worst served by their own model first (%)")
    figure.update_xaxes(range=[0, 100], dtick=20)


def personal_over_rounds(results: Results, name: str, seed: int, columns: int = 100) -> go.Figure:
    """Draw the quality of every client's own model in every evaluated round.

    Parameters
    ----------
    results : Results
        A result folder.
    name : str
        The algorithm.
    seed : int
        The seed; its run must have models of the clients' own.
    columns : int
        Most rounds that are drawn, evenly spaced.

    Returns
    -------
    Figure
        A heat map with a row a client, the worst served at the top; beyond 60 clients a row is a
        band of clients.

    Raises
    ------
    ValueError
        If the run has no models of the clients' own.
    """
    run = _run_with_models(results, name, seed)
    measure, style = own_models.measure(run), algorithm_styles(results)[name]
    values = own_models.over_rounds(run)
    values = values.iloc[thin(np.arange(len(values)), columns)]
    bands = min(_BANDS, values.shape[1]) if values.shape[1] > SINGLE else values.shape[1]
    groups = np.array_split(np.arange(values.shape[1]), bands)
    cells = np.array([np.nanmean(values.to_numpy(float)[:, rows], axis=1) for rows in groups])
    figure = canvas(max(240, 15 * bands + 64) if bands <= NAMED else 400, hovermode="closest")
    known = cells[np.isfinite(cells)]
    log = measure == "loss" and spans_decades([known])
    clients_over_rounds(
        figure, "own", _rounded(np.log10(cells) if log else cells), values.index.tolist(),
        run.called(values.columns), f"%{{x}}: {measure} %{{{'text' if log else 'z:.3~g'}}}",
        "worst served", text=_rounded(cells) if log else None, colorscale=fade(style),
        colorbar=colorbar(f"{measure} of its own model")
        | (powers(known.min(), known.max()) if log else {}),
    )  # fmt: skip
    return figure


def _rounded(cells: Floats) -> list[list[float | None]]:
    return [short(row, 3) for row in cells]


def _run_with_models(results: Results, name: str, seed: int) -> RunRecord:
    run = results.run(name, seed)
    if not len(run.personal):
        raise ValueError(f"{run.name}, seed {run.seed}, has no models of the clients' own")
    return run


def personal_how(run: RunRecord) -> str:
    """Return the caption of the figure of last values."""
    measure, many = own_models.measure(run), len(own_models.ends(run)) > SINGLE
    if own_models.distances(run) is None:
        text = f"The {measure} of each client's own model; there is no shared one."
    elif many:
        text = (
            f"The line is the {measure} of clients' own models; dotted is that of the shared model "
            "for the same clients, in a band from the 10th to the 90th percentile of those nearby."
        )
    else:
        text = (
            f"Filled dots are the {measure} of a client's own model, hollow ones that of the "
            "shared model on the same rows; the line between them is what a model of its own "
            "changes."
        )
    whole = own_models.whole(run)
    on_server = measure == "accuracy" and run.info.get("scored") == "server"
    text += " Accuracies are on the clients' training rows." * on_server
    if whole is not None:
        scored = " on the server's rows" if on_server else ""
        text += f" Dashed is the global model's {measure}{scored}, {units.number(whole)}."
    return text


def never_asked(run: RunRecord) -> str:
    """Return the number of clients never asked, empty if there are none."""
    values = own_models.ends(run)
    never = int((~values["asked"]).sum())
    return f"{never:,} of {len(values):,} clients were never asked." if never else ""


class PersonalPanel(Panel):
    """The clients' own models of the chosen run; runs without any are no choice here."""

    name: ClassVar[str] = "personal"
    section = Section.PERSONAL
    rank = 0
    draws = (personal, personal_over_rounds)

    @cached_property
    def runs(self) -> list[RunRecord]:
        """Those of the shown runs that have models of the clients' own and did not fail."""
        runs = [run for run in self.source.runs if len(run.personal) and run.status != "failed"]
        return [run for run in runs if len(own_models.ends(run))]

    @property
    def applies(self) -> bool:
        """Whether any run has models of the clients' own."""
        return bool(self.runs)

    @cached_property
    def payload(self) -> dict[str, Any]:
        """The words and figures of each of the ``runs``, and the place of the ``first`` shown."""
        rivals = self.results.rivals
        first = next((k for k, run in enumerate(self.runs) if run.name in rivals), 0)
        return {"runs": [self._run(run) for run in self.runs], "first": first}

    def _run(self, run: RunRecord) -> dict[str, Any]:
        rounds = int(np.clip(MOST_CELLS // (len(self.runs) * SINGLE), 10, 100))
        over_rounds = personal_over_rounds(self.results, run.name, run.seed, rounds)
        return {
            "name": run.name,
            "seed": run.seed,
            "place": self.source.colour_place(run.name),
            "how": personal_how(run),
            "note": never_asked(run),
            "dots": len(own_models.ends(run)) <= SINGLE,
            "shared": own_models.distances(run) is not None,
            "personal": figure_json(personal(self.results, run.name, run.seed)),
            "personal-rounds": figure_json(over_rounds),
        }
