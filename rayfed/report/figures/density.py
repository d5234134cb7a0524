"""Many clients over time: how many of each band of speeds were there, computed, came late."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.core.arrays import Floats
from rayfed.report.figures.intervals import INTERVAL
from rayfed.report.figures.palette import LIGHT
from rayfed.report.figures.rounds_strip import canvas_with_rounds, round_clock
from rayfed.report.figures.style import colorbar, veil
from rayfed.report.read.results import Run

HEIGHT = 420
_BANDS, _TIMES = 40, 160


def density(run: Run, clients: pd.DataFrame, colour: str) -> go.Figure:
    """Draw shares of clients in bands of equal speed rank and steps of time.

    The more of a band's clients are there the greyer it is; over it lies, the stronger the more,
    the algorithm's colour for those who compute, orange for the late, red for the dropped.

    Parameters
    ----------
    run : Run
        Its events and, where recorded, when clients were away.
    clients : DataFrame
        Its `Run.clients_by_speed`.
    colour : str
        The algorithm's colour.
    """
    clock = round_clock(run)
    figure = canvas_with_rounds(HEIGHT, clock)
    edges = np.linspace(0.0, clock.end, _TIMES + 1)
    bands = min(_BANDS, len(clients))
    rank = pd.Series(np.arange(len(clients)) * bands // len(clients), index=clients.index)
    away = away_share(run, rank, edges, bands)
    status = run.events["status"].astype(str)
    shares = {s: _share(run.events[status == s], rank, edges) for s in ("used", "late", "dropped")}
    x = (edges[:-1] + edges[1:]) / 2 / clock.worth
    y = (np.arange(bands) + 0.5) * 100 / bands
    if run.away is not None:
        grid = {"z": 100 - away, "zmin": 0, "zmax": 100, "showscale": False, "hoverinfo": "skip"}
        figure.add_heatmap(x=x, y=y, colorscale=veil(LIGHT["waiting"]), meta={"part": "there"})
        figure.data[-1].update(grid)
    top = max(float(share.max()) for share in shares.values()) or 1.0
    for part, part_colour in (
        ("late", LIGHT["late"]),
        ("dropped", LIGHT["dropped"]),
        ("used", colour),
    ):
        # The scale tells of the algorithm's own colour, which is on top and takes the mouse.
        figure.add_heatmap(
            x=x,
            y=y,
            z=shares[part].round(4),
            colorscale=veil(part_colour),
            zmin=0,
            zmax=top,
            showscale=part == "used",
            colorbar=colorbar("computing (%)"),
            hoverinfo="skip",
            meta={"part": part},
        )
    customdata = np.dstack([shares["late"], shares["dropped"], away]).round(3)
    figure.data[-1].update(
        customdata=customdata, hoverinfo=None, hovertemplate=_hover(run, clock.unit), name=""
    )
    figure.layout.yaxis.update(
        title_text="clients, fastest at the top (%)", range=[100, 0], showgrid=False
    )
    note = f"{len(clients):,} clients are drawn as a density, in {bands} bands of equal speed rank."
    figure.update_layout(meta={"note": note, "whole": clock.end / clock.worth})
    figure.update_xaxes(range=[0, clock.end / clock.worth])
    return figure


def _hover(run: Run, unit: str) -> str:
    away = "<br>%{customdata[2]:.3~g} % are away" if run.away is not None else ""
    return (
        f"the clients around the %{{y:.0f}} % fastest at %{{x:.4~g}} {unit}<br>"
        "%{z:.3~g} % compute, %{customdata[0]:.3~g} % are late, %{customdata[1]:.3~g} % drop out"
        f"{away}<extra></extra>"
    )


def away_share(run: Run, rank: pd.Series, edges: Floats, bands: int) -> Floats:
    """Return the share of clients that are away in each cell, (bands, times), percent.

    Parameters
    ----------
    run : Run
        A run.
    rank : Series of int
        The band of each client, by client.
    edges : (times + 1,) array
        Seconds.
    bands : int
        How many bands there are.
    """
    if run.away is None or not len(run.away):
        return np.zeros((bands, len(edges) - 1))
    # The clients with the smallest ids are recorded, up to a limit.
    recorded = rank[rank.index <= run.away["client"].max()]
    return _share(run.away, recorded, edges, bands)


def _share(
    intervals: pd.DataFrame, rank: pd.Series, edges: Floats, bands: int | None = None
) -> Floats:
    """Return the share of each cell that intervals of its clients take, in percent."""
    bands = bands or int(rank.max()) + 1
    band = rank.reindex(intervals["client"]).to_numpy(float)
    known = np.isfinite(band)
    rows = band[known].astype(int)
    start, end = (intervals[key].to_numpy(float)[known] for key in INTERVAL[1:])
    cells = np.empty((bands, len(edges) - 1))
    for time in range(len(edges) - 1):
        inside = np.minimum(end, edges[time + 1]) - np.maximum(start, edges[time])
        cells[:, time] = np.bincount(rows, np.maximum(inside, 0.0), minlength=bands)
    number = np.maximum(np.bincount(rank.to_numpy(), minlength=bands), 1)
    return 100 * cells / (number[:, None] * np.diff(edges)[None, :])
