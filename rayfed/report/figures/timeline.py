"""The clients' timeline: when each computed, waited, came late, was lost or was away."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.report.figures.density import density
from rayfed.report.figures.intervals import waiting_intervals
from rayfed.report.figures.palette import LIGHT
from rayfed.report.figures.rounds_strip import (
    MARGINS,
    STRIP,
    Clock,
    canvas_with_rounds,
    round_clock,
)
from rayfed.report.figures.style import algorithm_styles, canvas
from rayfed.report.figures.utilisation import WORDS
from rayfed.report.read.results import Results, Run

MOST_ROWS = 60  # clients beyond this are drawn as a density
MOST_BARS = 1500
FIRST_ROUNDS = 12  # rounds that the first view shows
_PARTS = ("finished", "idle", "used", "late", "dropped")
_COLOURS = {
    "finished": LIGHT["strip"],
    "idle": LIGHT["waiting"],
    "late": LIGHT["late"],
    "dropped": LIGHT["dropped"],
}
_WAITING = {"finished": WORDS["finished"], "idle": f"there, {WORDS['idle']}"}
_WORDS = {"used": "computing", "late": "late", "dropped": "dropped", **_WAITING}
_PATTERN = {"late": "/", "dropped": "x"}


def timeline(results: Results, name: str, seed: int, most: int = MOST_BARS) -> go.Figure:
    """Draw what the clients of one run did over simulated time, the fastest at the top.

    A bar reaches from the moment the server asks to the arrival of the reply, network included.
    Dark grey is a client that has answered and waits for the round to end, light grey one that is
    there and not asked, blank one that is away. Where it was not recorded who was away, blank is
    also a client that is not asked.

    Parameters
    ----------
    results : Results
        A result folder.
    name : str
        The algorithm.
    seed : int
        The seed.
    most : int
        About how many bars are drawn at most; later rounds are left out, which the note says.

    Returns
    -------
    Figure
            ``layout.meta`` holds ``note`` (what was left out, empty if nothing was) and ``blank``
        (what the blank means).
    """
    run = results.run(name, seed)
    styles = algorithm_styles(results)[name]
    clients = run.clients_by_speed
    blank = "away" if run.away is not None else "not asked, or away (not recorded for this run)"
    if not len(run.events):
        figure = canvas(200, meta={"note": "No events are recorded for this run."})
    elif len(clients) > MOST_ROWS:
        figure = density(run, clients, styles.light)
    else:
        figure = _bars(run, clients, styles.light, most)
    figure.layout.meta = figure.layout.meta | {"blank": blank}
    return figure


def _bars(run: Run, clients: pd.DataFrame, colour: str, most: int) -> go.Figure:
    events = run.events.assign(status=run.events["status"].astype(str))
    last = _last_round(run, events, clients.index, most)
    clock = round_clock(run, last)
    events = events[events["round"] <= last]
    figure = canvas_with_rounds(max(220, 20 * len(clients) + MARGINS + STRIP), clock)
    row = pd.Series(np.arange(len(clients)), index=clients.index)
    waiting = waiting_intervals(run, events, clients.index, clock.rounds)
    asks = pd.concat([events, waiting], ignore_index=True)
    colours = {"used": colour} | _COLOURS
    for part in _PARTS:
        chosen = asks[asks["status"] == part]
        _add_bars(figure, part, chosen, row, clock, colours[part], run)
    _set_rows(figure, run.called(clients.index))
    shown = clock.rounds["round"].iloc[: min(FIRST_ROUNDS, len(clock.rounds))]
    view = clock.rounds["end"].iloc[len(shown) - 1] if len(shown) else 1.0
    total = int(run.events["round"].max())
    note = f"Drawn: rounds 1 to {last} of {total}." if last < total else ""
    figure.update_xaxes(range=[0, float(view) / clock.worth])
    whole = clock.end / clock.worth
    frame = {
        "color": LIGHT["ink"],
        "width": 1.5,
    }  # of the client that a reader of the page asks for
    meta = {"note": note, "whole": whole, "first": len(shown), "last": last, "frame": frame}
    figure.update_layout(meta=meta)
    return figure


def _set_rows(figure: go.Figure, clients: list[int | str]) -> None:
    few = len(clients) <= 30
    figure.layout.yaxis.update(
        title_text="client, fastest at the top",
        range=[len(clients) - 0.4, -0.6],
        tickvals=list(range(len(clients))) if few else None,
        ticktext=[str(client) for client in clients] if few else None,
        showticklabels=few,
        showgrid=False,
    )


def _last_round(run: Run, events: pd.DataFrame, clients: pd.Index, most: int) -> int:
    """Return the last of as many whole rounds from the start as fit into so many bars."""
    rounds = round_clock(run).rounds
    waiting = waiting_intervals(run, events, clients, rounds)
    starts = np.searchsorted(rounds["end"].to_numpy(float), waiting["start_s"], side="right")
    bars = np.bincount(np.minimum(starts, len(rounds) - 1), minlength=len(rounds))
    asked = events.groupby("round").size().reindex(rounds["round"], fill_value=0)
    fitting = rounds["round"].to_numpy()[np.cumsum(bars + asked.to_numpy()) <= most]
    return int(fitting.max() if len(fitting) else events["round"].min())


def _add_bars(
    figure: go.Figure,
    part: str,
    events: pd.DataFrame,
    row: pd.Series,
    clock: Clock,
    colour: str,
    run: Run,
) -> None:
    start, end = events["start_s"].to_numpy(float), events["end_s"].to_numpy(float)
    times = np.column_stack([start, end, events["compute_s"].to_numpy(float)]) / clock.worth
    customdata = np.column_stack([events[["client", "round"]].to_numpy(float), times.round(6)])
    figure.add_bar(
        orientation="h",
        name=_WORDS[part],
        x=np.round((end - start) / clock.worth, 6),
        base=np.round(start / clock.worth, 6),
        y=row.reindex(events["client"]).to_numpy(float),
        customdata=_named(customdata[:, [0, 2, 3]] if part in _WAITING else customdata, run),
        width=0.72,
        marker={
            "color": colour,
            "line": {"width": 0},
            "pattern": {
                "shape": _PATTERN.get(part, ""),
                "fillmode": "overlay",
                "fgcolor": LIGHT["background"],
                "size": 6,
                "solidity": 0.25,
            },
        },
        hovertemplate=_hover(part, clock.unit),
        meta={"part": part},
    )


def _named(customdata: np.ndarray, run: Run) -> np.ndarray:
    """Return what hovers show, with the names of clients in the first column if they have any."""
    if not run.client_names:
        return customdata
    shown = customdata.astype(object)
    shown[:, 0] = run.called(customdata[:, 0])
    return shown


def _hover(part: str, unit: str) -> str:
    if part in _WAITING:
        return (
            f"client %{{customdata[0]}}<br>{_WORDS[part]}: %{{customdata[1]:.4~g}} to "
            f"%{{customdata[2]:.4~g}} {unit}<extra></extra>"
        )
    return (
        "client %{customdata[0]}, round %{customdata[1]:.0f}<br>"
        f"{_WORDS[part]}: %{{customdata[2]:.4~g}} to %{{customdata[3]:.4~g}} {unit}<br>"
        f"of it computing %{{customdata[4]:.3~g}} {unit}<extra></extra>"
    )
