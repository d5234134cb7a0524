"""Labels of clients, and their part in the updates, by data and by round."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.report.figures import charts, marks
from rayfed.report.figures.clients import (
    FAULTY,
    MOST_DOTS,
    TENTHS,
    clients_down,
    clients_over_rounds,
    fifth,
    tenths,
    tenths_across,
)
from rayfed.report.figures.labels import plain
from rayfed.report.figures.palette import LIGHT
from rayfed.report.figures.style import NAMED, algorithm_styles, canvas, colorbar, fade
from rayfed.report.panels.base import RunPanel, Section
from rayfed.report.read import breakdown
from rayfed.report.read.results import Results, RunRecord

_HISTOGRAM = 400
SINGLE = 60  # clients up to which each has a row
_LABEL_ROW = 17  # pixels
_WRITTEN = 12  # classes up to which numbers fit their cells
BINS = tuple(str(k) for k in range(0, 101, 10))
"""Largest share of a client's rows in each bin, of many clients; percent."""
HEIGHT = 400
_COARSE = (10, 30)  # bands of clients and of rounds where there are more than `MOST_DOTS` clients
_ALIKE = 0.005  # of the largest share: what differs by less is equal to the eye


def labels(results: Results, name: str, seed: int) -> go.Figure:
    """Draw the labels of the clients' rows.

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
        Of few clients a row each, the fastest at the top, with the share of its rows that has each
        label. Of more than 60 a row for each label, with the share of the clients that have so
        large a part of their rows of it. ``layout.meta["note"]`` names what is not drawn.

    Raises
    ------
    NothingToDraw
        If the labels of the run's clients are not recorded.
    """
    run = results.run(name, seed)
    counts = counted(run)
    if not len(counts):
        raise marks.NothingToDraw.of(run, "has no record of its clients' labels")
    few = len(counts) <= SINGLE
    figure = _rows(run, counts) if few else _histograms(counts)
    notes = [] if few else [f"{len(counts):,} clients are drawn together."]
    if len(counts) < (asked := len(run.clients_by_speed)):
        notes.append(f"{len(counts):,} of {asked:,} clients that took part are counted.")
    figure.update_traces(colorscale=fade(algorithm_styles(results)[name]))
    return figure.update_layout(meta={"note": " ".join(notes)})


def counted(run: RunRecord) -> pd.DataFrame:
    """Return the rows of each client and label, the fastest client first, without empty clients."""
    counts = breakdown.labels(run)
    order = run.clients_by_speed.index
    counts = counts.loc[order[order.isin(counts.index)]]
    return counts[counts.sum(axis=1) > 0]


def label_shares(counts: pd.DataFrame) -> pd.DataFrame:
    """Return the share of each client's rows that has each label (K, c), 0 to 1."""
    return counts.div(counts.sum(axis=1), axis=0)


def _rows(run: RunRecord, counts: pd.DataFrame) -> go.Figure:
    """Return a heat map with a row a client."""
    names, rows = run.called(counts.index), counts.to_numpy().tolist()
    figure = canvas(max(240, _LABEL_ROW * len(counts) + 64), hovermode="closest")
    marks.mark(
        figure, "heatmap", "clients",
        "client %{customdata[0]}: %{customdata[1]:,} rows of %{x}, %{z:.3~g} % of its rows",
        z=(100 * label_shares(counts)).round(2).to_numpy(), zmin=0, zmax=100, xgap=1, ygap=1,
        x=[plain(str(label)) for label in counts], y=np.arange(len(counts)),
        customdata=[[[name, n] for n in row] for name, row in zip(names, rows, strict=True)],
        text=[[f"{count:,}" if count else "" for count in row] for row in rows],
        texttemplate="%{text}" if counts.shape[1] <= _WRITTEN else None,
        colorbar=colorbar("of the client's rows (%)"),
    )  # fmt: skip
    _name_labels(figure.layout.xaxis, counts)
    clients_down(figure, names, len(names))
    return figure


def _histograms(counts: pd.DataFrame) -> go.Figure:
    """Return a heat map with a row for each label: numbers of clients by share of the label."""
    # With room for rounding: a tenth of the rows is in the bin up to 10 %.
    place = np.ceil(10 * label_shares(counts).to_numpy() - 1e-9).astype(int)
    cells = np.stack([np.bincount(column, minlength=len(BINS)) for column in place.T])
    figure = canvas(max(_HISTOGRAM // 2, _LABEL_ROW * counts.shape[1] + 64), hovermode="closest")
    marks.mark(
        figure, "heatmap", "density",
        "%{customdata:,} clients, %{z:.3~g} %, have up to %{x} % of their rows of %{y}",
        z=np.round(100 * cells / len(counts), 2), x=BINS, customdata=cells, zmin=0, xgap=1, ygap=1,
        y=[plain(str(label)) for label in counts], colorbar=colorbar("of the clients (%)"),
    )  # fmt: skip
    across = {"type": "category", "showgrid": False, "tickangle": 0}
    figure.update_xaxes(title_text="share of the client's rows, up to (%)", **across)
    _name_labels(figure.layout.yaxis, counts)
    return figure.update_yaxes(autorange="reversed")


def _name_labels(axis: go.layout.XAxis | go.layout.YAxis, counts: pd.DataFrame) -> None:
    ticks = {"dtick": 1, "nticks": None} if counts.shape[1] <= NAMED else {"nticks": 20}
    axis.update(title_text="label", type="category", showgrid=False, automargin=True)
    axis.update(ticks | {"tickangle": 0})


class LabelsPanel(RunPanel):
    """The labels of each client, or of many clients together."""

    name: ClassVar[str] = "labels"
    section = Section.FAIRNESS
    rank = 0
    draws = (labels,)
    heading = "Labels of each client"
    clickable = True

    @property
    def how(self) -> str:
        """Caption of the figure."""
        if any(len(counted(run)) > SINGLE for run in self.source.runs):
            return (
                "The stronger the colour, the more clients have this share of their training rows "
                "of that label. Shows the run chosen above."
            )
        return (
            "Rows are clients, the fastest at the top; numbers are training rows. Click a cell "
            "for that client's history. Shows the run chosen above."
        )


def participation(results: Results, name: str, seed: int) -> go.Figure:
    """Draw each client's share of the updates against its share of the data.

    On the diagonal both shares are equal; below it a client was left behind. The slowest fifth of
    the clients are open circles. Of more than 200 clients the shares are those of each tenth of
    them by speed, as bars.

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
        With ``layout.meta["note"]``: what was left out, empty if nothing was.

    Raises
    ------
    NothingToDraw
        If the run has no record of participation.
    """
    run = results.run(name, seed)
    shares = client_shares(run)
    if not len(shares):
        raise marks.NothingToDraw.of(run, "has no record of participation")
    draw = _by_tenths if len(shares) > MOST_DOTS else _by_client
    return draw(run, shares, algorithm_styles(results)[name].light)


def client_shares(run: RunRecord) -> pd.DataFrame:
    """Return each client's share of data and of used updates, 0 to 1, the fastest first."""
    clients = run.clients_by_speed
    clients = clients[clients["samples"].notna() & clients["used"].notna()]
    return clients.assign(
        data=clients["samples"] / max(1.0, clients["samples"].sum()),
        updates=clients["used"] / max(1.0, clients["used"].sum()),
        name=run.called(clients.index),
    )


def _by_tenths(run: RunRecord, shares: pd.DataFrame, colour: str) -> go.Figure:
    """Return bars of the shares of data and of updates of each tenth of the clients."""
    bands = (100 * tenths(shares[["data", "updates"]])).round(4)
    figure = canvas(HEIGHT, barmode="group", bargap=0.3, hovermode="x unified")
    for part, fill in (("data", LIGHT["strip"]), ("updates", colour)):
        hover = f"%{{y:.3~g}} % of the {part}"
        marks.bars(figure, part, TENTHS, bands[part], fill, hover, name=f"of the {part}")
    tenths_across(figure, len(shares))
    return figure.update_yaxes(title_text="share (%)", rangemode="tozero")


def _by_client(run: RunRecord, shares: pd.DataFrame, colour: str) -> go.Figure:
    """Return a dot for each client, and the diagonal of equal shares."""
    top = 1.06 * 100 * float(np.nanmax(shares[["data", "updates"]].to_numpy()) or 1.0)
    figure = canvas(HEIGHT, hovermode="closest", meta={"note": ""})
    dashed = {"color": LIGHT["muted"], "width": 1, "dash": "3px,3px"}
    marks.lines(figure, "diagonal", [0, top], [0, top], dashed)
    slow = np.arange(len(shares)) >= len(shares) - fifth(len(shares))
    faulty = shares.index.isin(list(run.faults))
    symbols = np.select([faulty, slow], [FAULTY, "circle-open"], "circle").tolist()
    rim = {"width": np.where(slow | faulty, 2, 0).tolist(), "color": colour}
    marker = {"symbol": symbols, "size": 9, "color": colour, "opacity": 0.85, "line": rim}
    hover = (
        "client %{customdata[0]}<br>%{customdata[1]:.0f} samples, %{customdata[2]:.3~g} s a step"
        "<br>asked %{customdata[3]:.0f} times, used %{customdata[4]:.0f} times"
    )
    table = shares.assign(x=100 * shares["data"], y=100 * shares["updates"])
    about = ("name", "samples", "speed_s", "selected", "used")
    charts.dots(figure, "clients", table, marker, hover, about)
    figure.update_xaxes(title_text="share of the data (%)", range=[0, top])
    return figure.update_yaxes(title_text="share of the updates (%)", range=[0, top])


class ParticipationPanel(RunPanel):
    """Each client's share of the updates against its share of the data."""

    name: ClassVar[str] = "participation"
    section = Section.FAIRNESS
    rank = 10
    draws = (participation,)
    heading = "Updates and data by client speed"
    clickable = True

    @property
    def brief(self) -> str:
        """The sentence where all shares of updates are those of the data, in every run."""
        for run in self.source.runs_with_events:
            shares = client_shares(run)[["updates", "data"]]
            largest = float(shares.to_numpy().max(initial=0.0))
            if shares.diff(axis=1)["data"].abs().max() > _ALIKE * largest:
                return ""
        return f"{self.heading}: each client has the same share of the updates as of the data."

    @property
    def how(self) -> str:
        """Caption of the figure."""
        if any(len(client_shares(run)) > MOST_DOTS for run in self.source.runs):
            return (
                "Ten bands of clients of equal speed rank. Grey bars show their share of the data, "
                "coloured bars their share of the updates. Shows the run chosen above."
            )
        some = any(run.faults for run in self.source.runs)
        crosses = ", crosses are faulty clients" if some else ""
        return (
            f"One dot for each client; open circles are the slowest fifth{crosses}. On the dashed "
            "line a client's share of the updates equals its share of the data. Shows the run "
            "chosen above."
        )


def participation_over_rounds(results: Results, name: str, seed: int) -> go.Figure:
    """Draw participation by round, clients down (the fastest at the top), rounds across.

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
        A heat map with a row a client; beyond 40 clients a row is a band of equal speed rank,
        beyond 200 a tenth of the clients. ``layout.meta["note"]`` has their number.

    Raises
    ------
    NothingToDraw
        If no events are recorded.
    """
    run = results.run(name, seed)
    clients = run.clients_by_speed
    if not run.asked:
        raise marks.NothingToDraw.of(run, "has no record of participation by round")
    share, edges = used_share(run)
    bands, columns = share.shape
    single = bands == len(clients)
    figure = canvas(max(240, 17 * bands + 64) if single else HEIGHT, hovermode="closest")
    clients_over_rounds(
        figure, "density", np.round(100 * share, 3), (edges[:-1] + edges[1:] - 1) / 2,
        run.called(clients.index), "%{x:.0f}: took part in %{z:.3~g} %", zmin=0,
        zmax=100 * float(share.max()) or 1.0, xgap=1 if columns <= 40 else 0,
        colorscale=fade(algorithm_styles(results)[name]), colorbar=colorbar("took part (%)"),
        showscale=not set(np.unique(share)) <= {0.0, 1.0},
    )  # fmt: skip
    note = "" if single else f"{len(clients):,} clients are drawn in {bands} bands of equal speed."
    return figure.update_layout(meta={"note": note})


def used_share(run: RunRecord) -> tuple[np.ndarray, np.ndarray]:
    """Return the share of used client-rounds by band and column, and the edges of the columns."""
    sums, edges = run.usage.cells("round", float(run.rounds["round"].max()) + 1)
    used, sizes = sums["used"], run.usage.band_sizes
    if len(run.clients_by_speed) > MOST_DOTS:
        down, across = (_starts(n, most) for n, most in zip(used.shape, _COARSE, strict=True))
        used, sizes = np.add.reduceat(used, down), np.add.reduceat(sizes, down)
        used, edges = np.add.reduceat(used, across, axis=1), np.append(edges[across], edges[-1])
    return used / (np.maximum(sizes, 1)[:, None] * np.diff(edges)[None, :]), edges


def _starts(count: int, most: int) -> np.ndarray:
    """Return the first place of each of at most so many groups of equal size."""
    groups = min(count, most)
    return np.unique(np.arange(count) * groups // count, return_index=True)[1]


class ParticipationOverRoundsPanel(RunPanel):
    """Participation of each client in each round."""

    name: ClassVar[str] = "rounds"
    section = Section.FAIRNESS
    rank = 20
    draws = (participation_over_rounds,)
    heading = "Participation in each round"

    @property
    def brief(self) -> str:
        """The sentence where every client took part in every round of every run."""
        full = ((used_share(run)[0] == 1.0).all() for run in self.source.runs_with_events)
        return f"{self.heading}: every client took part in every round." if all(full) else ""

    @property
    def how(self) -> str:
        """Caption of the figure."""
        if any(len(client_shares(run)) > MOST_DOTS for run in self.source.runs):
            return (
                "Rows are tenths of the clients, the fastest at the top; the stronger the colour, "
                "the more of them took part in those rounds."
            )
        return "Rows are clients, the fastest at the top; a filled cell took part in those rounds."
