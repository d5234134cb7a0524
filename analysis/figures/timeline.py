"""The clients' timeline: when each computed, waited, was late or went away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.figures.people import people
from analysis.figures.style import canvas, colorbar, fade, scale, study_inks
from analysis.palette import LIGHT
from analysis.read import Results, Run
from analysis.series import X_AXES, Array

MOST_ROWS = 60  # clients beyond this are drawn as a density
MOST_BARS = 1500
FIRST_ROUNDS = 12  # rounds that the first view shows
_BANDS, _TIMES = 40, 160  # cells of the density
_MARGINS = 12 + 52
_STRIP = 30  # pixels of the server's strip with its gap
_PARTS = ("waiting", "used", "late", "dropped")
_WORDS = {"used": "computing", "late": "late", "dropped": "dropped", "waiting": "waiting"}
_PATTERN = {"late": "/", "dropped": "x"}


def timeline(results: Results, name: str, seed: int, most: int = MOST_BARS) -> go.Figure:
    """Draw what the clients of one run did over simulated time, the fastest at the top.

    A bar reaches from the moment the server asks to the arrival of the reply, network included.
    Light grey follows where a client that has answered waits for the round to end.

    Parameters
    ----------
    results : Results
        A result folder.
    name : str
        The algorithm.
    seed : int
        The seed.
    most : int
        Most bars that are drawn; later rounds are left out, which the note says.

    Returns
    -------
    Figure
        With ``layout.meta["note"]``: what was left out, empty if nothing was.
    """
    run = next(run for run in results.of(name) if run.seed == seed)
    look = study_inks(results)[name]
    clients = people(run)
    if not len(run.events):
        return canvas(200, meta={"note": "No events are recorded for this run."})
    if len(clients) > MOST_ROWS:
        return _density(run, clients, look.light, fade(look))
    return _bars(run, clients, look.light, most)


@dataclass(frozen=True)
class _Clock:
    """Rounds of a run: number, start, end in seconds, and the unit they are drawn in."""

    rounds: pd.DataFrame
    worth: float
    title: str


def _clock(run: Run, last: int | None = None) -> _Clock:
    rounds = run.rounds[run.rounds["round"] > 0]
    ends = rounds["time_s"].to_numpy(float)
    first = run.rounds["time_s"].to_numpy(float)[:1] if len(rounds) < len(run.rounds) else [0.0]
    frame = pd.DataFrame(
        {"round": rounds["round"].to_numpy(), "start": np.r_[first, ends[:-1]], "end": ends}
    ).join(rounds[["participants", "late", "dropped"]].reset_index(drop=True))
    frame = frame if last is None else frame[frame["round"] <= last]
    chosen = scale(X_AXES["time_s"], float(frame["end"].max()) if len(frame) else 1.0)
    return _Clock(frame, chosen["worth"], chosen["title"])


def _bars(run: Run, clients: pd.DataFrame, colour: str, most: int) -> go.Figure:
    events, last = _first_rounds(run.events, most)
    clock = _clock(run, last)
    figure = _frame(max(220, 20 * len(clients) + _MARGINS + _STRIP), clock)
    row = pd.Series(np.arange(len(clients)), index=clients.index)
    asks = pd.concat([events, _waits(events, clock.rounds)], ignore_index=True)
    colours = {"used": colour} | {part: LIGHT[part] for part in ("waiting", "late", "dropped")}
    for part in _PARTS:
        mine = asks[asks["status"] == part]
        _add_bars(figure, part, mine, row, clock.worth, colours[part])
    few = len(clients) <= 30
    figure.layout.yaxis.update(
        title_text="client, fastest at the top",
        range=[len(clients) - 0.4, -0.6],
        tickvals=list(range(len(clients))) if few else None,
        ticktext=[str(client) for client in clients.index] if few else None,
        showticklabels=few,
        showgrid=False,
    )
    shown = clock.rounds["round"].iloc[: min(FIRST_ROUNDS, len(clock.rounds))]
    view = clock.rounds["end"].iloc[len(shown) - 1] if len(shown) else 1.0
    total = int(run.events["round"].max())
    note = f"Drawn: rounds 1 to {last} of {total}." if last < total else ""
    figure.update_xaxes(range=[0, float(view) / clock.worth])
    whole = float(clock.rounds["end"].max()) / clock.worth if len(clock.rounds) else 1.0
    figure.update_layout(meta={"note": note, "whole": whole, "first": len(shown), "last": last})
    return figure


def _first_rounds(events: pd.DataFrame, most: int) -> tuple[pd.DataFrame, int]:
    """Return the events of as many whole rounds from the start as fit, and the last of them."""
    events = events.assign(status=events["status"].astype(str))
    total = events.groupby("round").size().cumsum()
    # A used reply can bring a second bar, its wait.
    fitting = total.index[total.to_numpy() * 2 <= most]
    last = int(fitting.max() if len(fitting) else events["round"].min())
    return events[events["round"] <= last], last


def _waits(events: pd.DataFrame, rounds: pd.DataFrame) -> pd.DataFrame:
    """Return the time between a client's last reply of a round and the end of that round."""
    used = events[events["status"] == "used"]
    waits = used.sort_values("end_s").drop_duplicates(["round", "client"], keep="last")
    until = rounds.set_index("round")["end"].reindex(waits["round"]).to_numpy()
    waits = waits.assign(start_s=waits["end_s"], end_s=until, status="waiting")
    return waits[waits["end_s"] - waits["start_s"] > 0]


def _add_bars(
    figure: go.Figure, part: str, mine: pd.DataFrame, row: pd.Series, worth: float, colour: str
) -> None:
    length = (mine["end_s"] - mine["start_s"]).to_numpy(float)
    about = np.stack(
        [mine[key].to_numpy(float) for key in ("client", "round", "start_s", "end_s", "compute_s")],
        axis=1,
    )
    figure.add_bar(
        orientation="h",
        name=_WORDS[part],
        x=np.round(length / worth, 6),
        base=np.round(mine["start_s"].to_numpy(float) / worth, 6),
        y=row.reindex(mine["client"]).to_numpy(float),
        customdata=np.round(about, 4),
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
        hovertemplate=_hover(part),
        meta={"part": part},
    )


def _hover(part: str) -> str:
    if part == "waiting":
        return (
            "client %{customdata[0]:.0f}, round %{customdata[1]:.0f}<br>has answered, waits until "
            "%{customdata[3]:.4~g} s<extra></extra>"
        )
    return (
        "client %{customdata[0]:.0f}, round %{customdata[1]:.0f}<br>"
        f"{_WORDS[part]}: "
        "%{customdata[2]:.4~g} s to %{customdata[3]:.4~g} s<br>"
        "of it computing %{customdata[4]:.3~g} s<extra></extra>"
    )


def _frame(height: int, clock: _Clock) -> go.Figure:
    """Return a canvas with the server's rounds as a strip above the plot."""
    figure = canvas(height, barmode="overlay", bargap=0, hovermode="closest", dragmode="zoom")
    inside = height - _MARGINS
    split = 1 - _STRIP / inside
    figure.update_layout(
        yaxis={"domain": [0, split]},
        yaxis2={
            "domain": [1 - 18 / inside, 1],
            "range": [0, 1],
            "showticklabels": True,
            "tickvals": [0.5],
            "ticktext": ["server"],
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
            "anchor": "free",
            "position": 0,
            "ticks": "",
            "tickfont": {"color": LIGHT["muted"]},
        },
    )
    _strip(figure, clock)
    figure.update_xaxes(title_text=clock.title, rangemode="tozero")
    # Round numbers that would have to shrink to fit are left out.
    figure.update_layout(uniformtext={"mode": "hide", "minsize": 8})
    return figure


def _strip(figure: go.Figure, clock: _Clock, most: int = 400) -> None:
    """Add one block a round, in two greys by turns; many rounds are taken together."""
    rounds = clock.rounds
    step = max(1, -(-len(rounds) // most))
    groups = rounds.groupby(np.arange(len(rounds)) // step)
    blocks = groups.agg({"round": "first", "start": "first", "end": "last"})
    counts = groups[["participants", "late", "dropped"]].sum()
    figure.add_bar(
        orientation="h",
        x=((blocks["end"] - blocks["start"]) / clock.worth).to_numpy(float),
        base=(blocks["start"] / clock.worth).to_numpy(float),
        y=np.full(len(blocks), 0.5),
        width=1.0,
        yaxis="y2",
        customdata=np.column_stack(
            [blocks["round"], blocks["end"] - blocks["start"], counts.to_numpy(float)]
        ),
        marker={
            "color": [LIGHT["strip"] if i % 2 else LIGHT["waiting"] for i in range(len(blocks))],
            "line": {"width": 0},
        },
        text=[str(number) for number in blocks["round"]] if step == 1 else None,
        textposition="inside",
        insidetextanchor="middle",
        textangle=0,
        constraintext="inside",
        textfont={"color": LIGHT["ink"], "size": 10},
        hovertemplate="round %{customdata[0]:.0f}: %{customdata[1]:.3~g} s, "
        "%{customdata[2]:.0f} replies used, %{customdata[3]:.0f} late, "
        "%{customdata[4]:.0f} dropped<extra></extra>",
        meta={"part": "server"},
    )


def _density(run: Run, clients: pd.DataFrame, colour: str, scale_: list[list[Any]]) -> go.Figure:
    """Draw the share of clients that compute, clients and time in bands."""
    clock = _clock(run)
    figure = _frame(420, clock)
    edges = np.linspace(0.0, float(clock.rounds["end"].max()) if len(clock.rounds) else 1.0, 161)
    bands = min(_BANDS, len(clients))
    rank = pd.Series(np.arange(len(clients)) * bands // len(clients), index=clients.index)
    events = run.events
    band = rank.reindex(events["client"]).to_numpy(float)
    busy = _busy(events, band, edges, bands)
    people_in = np.bincount(rank.to_numpy(), minlength=bands)[:, None]
    share = 100 * busy / (people_in * np.diff(edges)[None, :])
    figure.add_heatmap(
        z=np.round(share, 4),
        x=(edges[:-1] + edges[1:]) / 2 / clock.worth,
        y=(np.arange(bands) + 0.5) * 100 / bands,
        colorscale=scale_,
        zmin=0,
        colorbar=colorbar("computing (%)"),
        hovertemplate="of the clients around the %{y:.0f} % fastest, %{z:.3~g} % "
        "compute at %{x:.4~g}<extra></extra>",
        meta={"part": "density"},
    )
    figure.layout.yaxis.update(
        title_text="clients, fastest at the top (%)", range=[100, 0], showgrid=False
    )
    note = f"{len(clients):,} clients are drawn as a density, in {bands} bands of equal speed rank."
    figure.update_layout(meta={"note": note, "whole": edges[-1] / clock.worth})
    figure.update_xaxes(range=[0, edges[-1] / clock.worth])
    return figure


def _busy(events: pd.DataFrame, band: Array, edges: Array, bands: int) -> Array:
    """Return the seconds of computing in each cell, (bands, times)."""
    known = np.isfinite(band)
    start = events["start_s"].to_numpy(float)[known]
    end = events["end_s"].to_numpy(float)[known]
    rows = band[known].astype(int)
    cells = np.empty((bands, len(edges) - 1))
    for time in range(len(edges) - 1):
        inside = np.minimum(end, edges[time + 1]) - np.maximum(start, edges[time])
        cells[:, time] = np.bincount(rows, np.maximum(inside, 0.0), minlength=bands)
    return cells
