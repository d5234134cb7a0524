"""Personal models of the clients, against the shared model and over the rounds."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.core.arrays import Floats
from rayfed.report.figures import charts, marks
from rayfed.report.figures.clients import clients_across, clients_over_rounds
from rayfed.report.figures.palette import LIGHT, LineStyle
from rayfed.report.figures.style import (
    NAMED,
    algorithm_styles,
    canvas,
    colorbar,
    fade,
    fitted,
    powers,
    spans_decades,
)
from rayfed.report.panels.base import Panel, Section, figure_json, short
from rayfed.report.read import personal as own_models
from rayfed.report.read import units
from rayfed.report.read.curves import thin
from rayfed.report.read.results import Results, RunRecord

SINGLE = 60  # clients up to which each has a dot for its own model, and a row in a map
_HEIGHT = 360
_BANDS = 40  # groups of clients beyond, in a map
_GROUPS, _MOST_POINTS = 20, 200  # of a curve of own models
MOST_CELLS = 60_000  # of the maps of own models over rounds of all runs together


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
        last value of the global model on all rows, if there is one.

    Raises
    ------
    ValueError
        If the run has no models of the clients' own.
    """
    run = _run_with_models(results, name, seed)
    clients, measure = own_models.ends(run), own_models.measure(run)
    level = own_models.global_value(run)
    values = clients[["own", "shared"]].to_numpy(float).ravel()
    values = np.append(values[np.isfinite(values)], [] if level is None else level)
    figure = canvas(_HEIGHT, hovermode="closest")
    figure.update_xaxes(showgrid=False)
    log = None if measure == "loss" else False
    figure.update_yaxes(fitted(f"{measure} of the client", [values], log))
    never = clients["asked"].map({True: "", False: "<br>never asked"})
    add = _add_dots if len(clients) <= SINGLE else _add_curves
    add(figure, clients.assign(never=never), measure, algorithm_styles(results)[name])
    if level is not None:
        low, high = figure.layout.xaxis.range
        across = np.linspace(low, high, 21)  # a hover needs points
        dashed = {"color": LIGHT["ink"], "width": 1.5, "dash": "9px,4px"}
        hover = f"{measure} of the global model: %{{y:.3~g}}"
        marks.lines(figure, "global", across, np.full(21, level), dashed, hover)
    return figure


_ABOUT = ("name", "own", "shared", "never")


def _hover(clients: pd.DataFrame, measure: str) -> str:
    """Return the text of a hover over a client, of the columns `_ABOUT`."""
    text = f"client %{{customdata[0]}}<br>{measure} %{{customdata[1]:.3~g}} with its own model"
    if clients["shared"].notna().any():
        text += ", %{customdata[2]:.3~g} with the shared one"
    return text + "%{customdata[3]}"


def _add_dots(figure: go.Figure, clients: pd.DataFrame, measure: str, style: LineStyle) -> None:
    at, few = np.arange(len(clients)), len(clients) <= NAMED
    grey = {"color": LIGHT["strip"], "width": 3}
    marks.lines(figure, "change", *marks.segments(at, clients[["own", "shared"]]), grey)
    colours = [style.light if asked else LIGHT["muted"] for asked in clients["asked"]]
    for part, fill in (("shared", LIGHT["background"]), ("own", colours)):
        rim = {"color": colours, "width": 2}
        marker = {"size": 11 if few else 8, "color": fill, "opacity": 1, "line": rim}
        rows = clients.assign(x=at, y=clients[part])
        charts.dots(figure, part, rows, marker, _hover(clients, measure), _ABOUT)
    title = "client, the worst own model first"
    clients_across(figure, clients["name"].tolist(), title)


def _add_curves(figure: go.Figure, clients: pd.DataFrame, measure: str, style: LineStyle) -> None:
    """Add a line of clients' own models and a band of the shared one for the same clients."""
    if np.isfinite(clients["shared"]).any():
        groups = np.array_split(clients["shared"].to_numpy(float), _GROUPS)
        quantiles = [np.nanquantile(group, (0.1, 0.5, 0.9)) for group in groups]
        bands = np.array([*quantiles, quantiles[-1]])
        edge: dict[str, Any] = {"width": 0, "color": LIGHT["waiting"], "shape": "hv"}
        dashed = {"width": 1.5, "color": LIGHT["ink"], "dash": "3px,3px", "shape": "hv"}
        for part, column, outline in (("low", 0, edge), ("high", 2, edge), ("shared", 1, dashed)):
            x, fill = np.linspace(0, 100, _GROUPS + 1), "tonexty" if part == "high" else None
            y, grey = bands[:, column], LIGHT["waiting"] if fill else None
            marks.lines(figure, part, x, y, outline, fill=fill, fillcolor=grey)
    rows = clients.assign(x=100 * (np.arange(len(clients)) + 0.5) / len(clients), y=clients["own"])
    rows = rows.iloc[thin(np.arange(len(rows)), _MOST_POINTS)]
    thick = {"mode": "lines", "line": {"color": style.light, "width": 2.5}}
    charts.dots(figure, "own", rows, {}, _hover(clients, measure), _ABOUT, **thick)
    figure.update_xaxes(title_text="clients, the worst own models first (%)")
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
        A heat map with a row a client, the worst own model at the top; beyond 60 clients a row is a
        band of clients.

    Raises
    ------
    ValueError
        If the run has no models of the clients' own.
    """
    run = _run_with_models(results, name, seed)
    measure, values = own_models.measure(run), own_models.over_rounds(run)
    values = values.iloc[thin(np.arange(len(values)), columns)]
    bands = min(_BANDS, values.shape[1]) if values.shape[1] > SINGLE else values.shape[1]
    groups = np.array_split(values.to_numpy(float), bands, axis=1)
    cells = np.array([np.nanmean(group, axis=1) for group in groups])
    known = cells[np.isfinite(cells)]
    log = measure == "loss" and spans_decades([known])
    scale = colorbar(f"{measure} of its own model")
    figure = canvas(max(240, 15 * bands + 64) if bands <= NAMED else 400, hovermode="closest")
    clients_over_rounds(
        figure, "own", _rounded(np.log10(cells) if log else cells), values.index.tolist(),
        run.called(values.columns), f"%{{x}}: {measure} %{{{'text' if log else 'z:.3~g'}}}",
        "worst own model", text=_rounded(cells) if log else None,
        colorscale=fade(algorithm_styles(results)[name]),
        colorbar=scale | (powers(known.min(), known.max()) if log else {}),
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
    measure, own, shared = own_models.measure(run), "Filled dots show", "hollow dots"
    if len(own_models.ends(run)) > SINGLE:
        own, shared = "The line shows", "the dotted line, in a band from 10th to 90th percentile,"
    text = f"{own} the {measure} of the clients' own models"
    none = own_models.distances(run) is None
    text += "; there is no shared model." if none else f", {shared} that of the shared model."
    level = own_models.global_value(run)
    on_server = measure == "accuracy" and run.info.get("scored") == "server"
    text += " Accuracies are on the clients' training rows." * on_server
    if level is not None:
        scored = " on the server's rows" * on_server
        text += f" Dashed is the global model's {measure}{scored}, {units.number(level)}."
    return text


def never_asked(run: RunRecord) -> str:
    """Return the number of clients never asked, empty if there are none."""
    asked = own_models.ends(run)["asked"]
    never = int((~asked).sum())
    return f"{never:,} of {len(asked):,} clients were never asked." if never else ""


class PersonalPanel(Panel):
    """Personal models of the clients; the reader chooses a run that has any."""

    name: ClassVar[str] = "personal"
    section = Section.PERSONAL
    rank = 0
    draws = (personal, personal_over_rounds)

    @cached_property
    def runs(self) -> list[RunRecord]:
        """The shown runs that have models of the clients' own and did not fail."""
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
