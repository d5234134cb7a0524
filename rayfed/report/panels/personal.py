"""Gains of clients by models of their own: at the end, and over the rounds."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.core.arrays import Floats
from rayfed.report.figures import marks
from rayfed.report.figures.clients import clients_over_rounds, named
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
)  # fmt: skip
from rayfed.report.html import keep_units
from rayfed.report.panels.base import Panel, Section, figure_json, short
from rayfed.report.panels.phrases import joined, quoted
from rayfed.report.read import personal as own_models
from rayfed.report.read import units
from rayfed.report.read.results import Results, RunRecord
from rayfed.report.read.series import thin

HEIGHT = 360
SINGLE = 60  # clients up to which each has a dot
_BANDS = 40  # groups of clients beyond, in a map
_GROUPS, _POINTS = 20, 200  # of a curve
MOST_ROWS = max(SINGLE, _BANDS)
MOST_CELLS = 60_000  # of the maps of own models over rounds of all runs together


def personal(results: Results, name: str, seed: int) -> go.Figure:
    """Draw what every client's own model gives it, and what the shared one would.

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
    figure = canvas(HEIGHT, hovermode="closest")
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
    figure.update_xaxes(title_text="client, the worst served by its own model first")
    figure.update_xaxes(range=[-0.7, len(clients) - 0.3], showticklabels=few)
    if few:
        figure.update_xaxes(named(clients["name"].tolist(), across=True))


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
    at = thin(np.arange(len(clients)), _POINTS)
    marks.lines(
        figure, "own", (100 * (at + 0.5) / len(clients)).tolist(), own_values[at].tolist(),
        {"color": style.light, "width": 2.5}, _hover(clients, measure),
        customdata=_customdata(clients.iloc[at]),
    )  # fmt: skip
    figure.update_xaxes(title_text="clients, the worst served by their own model first (%)")
    figure.update_xaxes(range=[0, 100], dtick=20)


def personal_over_rounds(results: Results, name: str, seed: int, columns: int = 100) -> go.Figure:
    """Draw how good every client's own model was in every evaluated round.

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


def title(run: RunRecord) -> str:
    """Return how many clients their own models serve better, and how the worst served fares."""
    values, measure, name = own_models.ends(run), own_models.measure(run), quoted(run.name)
    total = f"{len(values):,} client{'s' * (len(values) != 1)}"
    (who, own), (_, shared) = (
        _worst(values[part].to_numpy(float), measure) for part in values.columns[:2]
    )
    if values["shared"].isna().all():
        return f"With {name} there is no shared model; {who} has {measure} {own} with its own"
    better, worse, alike = own_models.gains(run)
    clients = f"all {total}" if better == len(values) > 1 else f"{better:,} of {total}"
    text = f"With {name} own models serve {clients} better than the shared one"
    rest = [(worse, "worse"), (alike, "about as well")]
    text = joined([text, *(f"{count:,} {how_well}" for count, how_well in rest if count)])
    return f"{text}; {who} has {measure} {own} instead of {shared}"


def _worst(values: Floats, measure: str) -> tuple[str, str]:
    """Return who is served worst and how well: one client of few, of many the mean of a tenth."""
    order = np.sort(values) if measure == "accuracy" else -np.sort(-values)
    if len(order) <= SINGLE:
        return "the worst-served client", units.number(float(order[0]))
    tenth = order[: math.ceil(len(order) / 10)]
    return "the worst-served tenth", units.number(float(tenth.mean()))


def how(run: RunRecord) -> str:
    """Return how to read the figure of the last values."""
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
    if own_models.distances(run) is not None:
        margin = "half a point" if measure == "accuracy" else "1 %"
        text += f" Within {margin} of each other they count as serving a client alike."
    whole = own_models.whole(run)
    on_server = measure == "accuracy" and run.info.get("scored") == "server"
    text += " Accuracies are on the clients' training rows." * on_server
    if whole is not None:
        scored = " on the server's rows" if on_server else ""
        text += f" Dashed is the global model's {measure}{scored}, {units.number(whole)}."
    return text


def note(run: RunRecord) -> str:
    """Return how many clients were never asked, empty if all were."""
    values = own_models.ends(run)
    never = int((~values["asked"]).sum())
    return f"{never:,} of {len(values):,} clients were never asked." if never else ""


def rounds_title(run: RunRecord) -> str:
    """Return how good own models were at first and at last, on average and at worst."""
    measure, values = own_models.measure(run), own_models.over_rounds(run)
    ends = [values.iloc[place].to_numpy(float) for place in (0, -1)]
    first, last = (units.number(float(row.mean())) for row in ends)
    (who, worst_first), (_, worst_last) = (_worst(row, measure) for row in ends)
    return (
        f"In {int(values.index[-1]):,} rounds the mean {measure} of own models with "
        f"{quoted(run.name)} went from {first} to {last}, that of {who} from {worst_first} to "
        f"{worst_last}"
    )


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
        rounds = int(np.clip(MOST_CELLS // (len(self.runs) * MOST_ROWS), 10, 100))
        titles = {"personal": title(run), "personal-rounds": rounds_title(run)}
        over_rounds = personal_over_rounds(self.results, run.name, run.seed, rounds)
        return {
            "name": run.name,
            "seed": run.seed,
            "place": self.source.colour_place(run.name),
            "titles": {figure: keep_units(text) for figure, text in titles.items()},
            "how": how(run),
            "note": note(run),
            "dots": len(own_models.ends(run)) <= SINGLE,
            "shared": own_models.distances(run) is not None,
            "personal": figure_json(personal(self.results, run.name, run.seed)),
            "personal-rounds": figure_json(over_rounds),
        }
