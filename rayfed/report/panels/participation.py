"""Labels of clients, and their part in the updates, by data and by round."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.core.arrays import Floats
from rayfed.report.figures import marks
from rayfed.report.figures.clients import (
    FAULTY,
    MOST_DOTS,
    TENTHS,
    clients_down,
    clients_over_rounds,
    fifth,
    tenths,
    tenths_across,
)  # fmt: skip
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
_COARSE = (10, 30)  # of more than `MOST_DOTS` clients, of whom single ones would be noise
_SYMBOLS = {"others": "circle", "slowest": "circle-open", "faulty": FAULTY}


def labels(results: Results, name: str, seed: int) -> go.Figure:
    """Draw which labels clients hold.

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
        large a part of their rows of it. ``layout.meta["note"]`` says what is not drawn.

    Raises
    ------
    ValueError
        If the labels of the run's clients are not recorded.
    """
    run = results.run(name, seed)
    counts = counted(run)
    if not len(counts):
        raise marks.NothingToDraw.of(run, "has no record of its clients' labels")
    shares = label_shares(counts)
    few = len(counts) <= SINGLE
    figure = _rows(run, counts, shares) if few else _histograms(counts, shares)
    notes = [] if few else [f"{len(counts):,} clients are drawn together."]
    if len(counts) < (asked := len(run.clients_by_speed)):
        notes.append(f"{len(counts):,} of {asked:,} clients that took part are counted.")
    figure.update_traces(colorscale=fade(algorithm_styles(results)[name]))
    return figure.update_layout(meta={"note": " ".join(notes)})


def counted(run: RunRecord) -> pd.DataFrame:
    """Return the rows of each client and label, the fastest client first, without empty clients."""
    counts = breakdown.labels(run)
    order = [client for client in run.clients_by_speed.index if client in counts.index]
    counts = counts.loc[order]
    return counts[counts.sum(axis=1) > 0]


def label_shares(counts: pd.DataFrame) -> Floats:
    """Return the share of each client's rows that has each label (K, c), 0 to 1."""
    rows = counts.to_numpy(float)
    shares: Floats = rows / rows.sum(axis=1, keepdims=True)
    return shares


def _rows(run: RunRecord, counts: pd.DataFrame, shares: Floats) -> go.Figure:
    """Return a heat map with a row a client."""
    names = run.called(counts.index)
    figure = canvas(max(240, _LABEL_ROW * len(counts) + 64), hovermode="closest")
    marks.mark(
        figure, "heatmap", "clients",
        "client %{customdata[0]}: %{customdata[1]:,} rows of %{x}, %{z:.3~g} % of its rows",
        z=np.round(100 * shares, 2), x=[plain(label) for label in counts.columns],
        y=np.arange(len(counts)), zmin=0, zmax=100, xgap=1, ygap=1,
        customdata=[[[name, *row] for row in zip(rows, strict=True)]
                    for name, rows in zip(names, counts.to_numpy().tolist(), strict=True)],
        text=[[f"{count:,}" if count else "" for count in row] for row in counts.to_numpy()],
        texttemplate="%{text}" if counts.shape[1] <= _WRITTEN else None,
        colorbar=colorbar("of the client's rows (%)"),
    )  # fmt: skip
    _name_labels(figure.layout.xaxis, counts)
    clients_down(figure, names, len(names))
    return figure


def _histograms(counts: pd.DataFrame, shares: Floats) -> go.Figure:
    """Return a heat map with a row for each label: numbers of clients by share of the label."""
    # With room for rounding: a tenth of the rows is in the bin up to 10 %.
    place = np.ceil(10 * shares - 1e-9).astype(int)
    cells = np.stack([np.bincount(column, minlength=len(BINS)) for column in place.T])
    figure = canvas(max(_HISTOGRAM // 2, _LABEL_ROW * counts.shape[1] + 64), hovermode="closest")
    marks.mark(
        figure, "heatmap", "density",
        "%{customdata:,} clients, %{z:.3~g} %, have up to %{x} % of their rows of %{y}",
        z=np.round(100 * cells / len(counts), 2), x=BINS, customdata=cells, zmin=0, xgap=1, ygap=1,
        y=[plain(label) for label in counts.columns], colorbar=colorbar("of the clients (%)"),
    )  # fmt: skip
    figure.update_xaxes(title_text="share of the client's rows, up to (%)", type="category")
    figure.update_xaxes(showgrid=False, tickangle=0)
    _name_labels(figure.layout.yaxis, counts)
    return figure.update_yaxes(autorange="reversed")


def _name_labels(axis: go.layout.XAxis | go.layout.YAxis, counts: pd.DataFrame) -> None:
    few = counts.shape[1] <= NAMED
    axis.update(title_text="label", type="category", showgrid=False, automargin=True)
    axis.update(dtick=1 if few else None, nticks=None if few else 20, tickangle=0)


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
                "The stronger the colour, the more clients have so large a part of their training "
                "rows of that label. Shows the run chosen above."
            )
        return (
            "Rows are clients, the fastest at the top; numbers are training rows. Click a cell "
            "for that client's history. Shows the run chosen above."
        )


def participation(results: Results, name: str, seed: int) -> go.Figure:
    """Draw each client's share of the updates against its share of the data.

    On the diagonal a client counts as much as its data; below it the client was left behind. The
    slowest fifth of the clients are open circles. Of more than 200 clients the shares are those of
    each tenth of them by speed, as bars.

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
    """
    run = results.run(name, seed)
    shares = client_shares(run)
    if not len(shares):
        raise marks.NothingToDraw.of(run, "has no record of who took part")
    if len(shares) > MOST_DOTS:
        return _by_tenths(shares, algorithm_styles(results)[name].light)
    slow = np.arange(len(shares)) >= len(shares) - fifth(len(shares))
    figure = canvas(HEIGHT, hovermode="closest")
    top = 1.06 * 100 * float(np.nanmax(shares[["data", "updates"]].to_numpy()) or 1.0)
    _add_diagonal(figure, top)
    colour = algorithm_styles(results)[name].light
    faulty = shares.index.isin(list(run.faults))
    for part, chosen in (
        ("others", ~slow & ~faulty), ("slowest", slow & ~faulty), ("faulty", faulty)
    ):  # fmt: skip
        _add_dots(figure, part, shares[chosen], colour, run)
    figure.update_xaxes(title_text="share of the data (%)", range=[0, top])
    figure.update_yaxes(title_text="share of the updates (%)", range=[0, top])
    figure.update_layout(meta={"note": ""})
    return figure


def _by_tenths(shares: pd.DataFrame, colour: str) -> go.Figure:
    """Return bars of the shares of data and of updates of each tenth of the clients."""
    bands = tenths(shares[["data", "updates"]])
    figure = canvas(HEIGHT, barmode="group", bargap=0.3, hovermode="x unified")
    rows = (("data", LIGHT["strip"], "of the data"), ("updates", colour, "of the updates"))
    for part, fill, words in rows:
        shares_of, hover = (100 * bands[part]).round(4), f"%{{y:.3~g}} % {words}"
        marks.bars(figure, part, TENTHS, shares_of, fill, hover, name=words)
    tenths_across(figure, len(shares))
    return figure.update_yaxes(title_text="share (%)", rangemode="tozero")


def client_shares(run: RunRecord) -> pd.DataFrame:
    """Return each client's share of data and of used updates, 0 to 1, the fastest first."""
    clients = run.clients_by_speed
    clients = clients[clients["samples"].notna() & clients["used"].notna()]
    return clients.assign(
        data=clients["samples"] / max(1.0, clients["samples"].sum()),
        updates=clients["used"] / max(1.0, clients["used"].sum()),
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
        beyond 200 a tenth of the clients. ``layout.meta["note"]`` says so, or that no events are
        recorded.
    """
    run = results.run(name, seed)
    clients = run.clients_by_speed
    if not run.asked:
        raise marks.NothingToDraw.of(run, "has no record of who took part in which rounds")
    share, round_edges = _used_share(run, coarse=len(clients) > MOST_DOTS)
    bands, columns = share.shape
    single = bands == len(clients)
    figure = canvas(max(240, 17 * bands + 64) if single else HEIGHT, hovermode="closest")
    clients_over_rounds(
        figure, "density", np.round(100 * share, 3), (round_edges[:-1] + round_edges[1:] - 1) / 2,
        run.called(clients.index), "%{x:.0f}: took part in %{z:.3~g} %", zmin=0,
        zmax=100 * float(share.max()) or 1.0, xgap=1 if columns <= 40 else 0,
        colorscale=fade(algorithm_styles(results)[name]), colorbar=colorbar("took part (%)"),
        showscale=not set(np.unique(share)) <= {0.0, 1.0},
    )  # fmt: skip
    note = "" if single else f"{len(clients):,} clients are drawn in {bands} bands of equal speed."
    return figure.update_layout(meta={"note": note})


def _used_share(run: RunRecord, *, coarse: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the share of client-rounds that were used in each cell, and the rounds' edges."""
    sums, edges = run.usage.cells("round", float(run.rounds["round"].max()) + 1)
    used, sizes = sums["used"], run.usage.band_sizes
    if coarse:
        down, across = (_starts(n, most) for n, most in zip(used.shape, _COARSE, strict=True))
        used, sizes = np.add.reduceat(used, down), np.add.reduceat(sizes, down)
        used, edges = np.add.reduceat(used, across, axis=1), np.append(edges[across], edges[-1])
    return used / (np.maximum(sizes, 1)[:, None] * np.diff(edges)[None, :]), edges


def _starts(count: int, most: int) -> np.ndarray:
    """Return where each of at most so many groups of equal size begins."""
    groups = min(count, most)
    return np.unique(np.arange(count) * groups // count, return_index=True)[1]


def _add_diagonal(figure: go.Figure, top: float) -> None:
    dashed = {"color": LIGHT["muted"], "width": 1, "dash": "3px,3px"}
    marks.lines(figure, "diagonal", [0, top], [0, top], dashed)
    figure.add_annotation(
        x=top, y=top, text="as much as its data", showarrow=False, font={"color": LIGHT["muted"]},
        xanchor="right", yanchor="top", xshift=-70,  # clear of the line, wide as the figure may be
    )  # fmt: skip


def _add_dots(
    figure: go.Figure, part: str, shares: pd.DataFrame, colour: str, run: RunRecord
) -> None:
    columns = shares[["used", "selected", "samples", "speed_s"]].to_numpy(float)
    pairs = zip(run.called(shares.index), np.round(columns, 5).tolist(), strict=True)
    open_ = part != "others"
    marks.dots(
        figure, part, 100 * shares["data"], 100 * shares["updates"],
        {"symbol": _SYMBOLS[part], "size": 9, "color": colour,
         "opacity": 0.85, "line": {"width": 2 if open_ else 0, "color": colour}},
        "client %{customdata[0]}<br>%{customdata[3]:.0f} samples, %{customdata[4]:.3~g} s a step"
        "<br>asked %{customdata[2]:.0f} times, used %{customdata[1]:.0f} times",
        customdata=[[client, *row] for client, row in pairs],
    )  # fmt: skip


class ParticipationPanel(RunPanel):
    """Each client's share of the updates against its share of the data."""

    name: ClassVar[str] = "participation"
    section = Section.FAIRNESS
    rank = 10
    draws = (participation,)
    heading = "Updates and data by client speed"
    clickable = True

    @property
    def how(self) -> str:
        """Caption of the figure."""
        if any(len(client_shares(run)) > MOST_DOTS for run in self.source.runs):
            return (
                "Ten bands of clients of equal speed rank: grey their share of the data, coloured "
                "their share of the updates. Shows the run chosen above."
            )
        return (
            f"One dot for each client; open circles are the slowest fifth{self._crosses}. On the "
            "dashed line a client counts as much as its data, below it less. Shows the run chosen "
            "above."
        )

    @property
    def _crosses(self) -> str:
        some = any(run.faults for run in self.source.runs)
        return ", crosses those that are faulty" if some else ""


class ParticipationOverRoundsPanel(RunPanel):
    """Which clients took part in which rounds."""

    name: ClassVar[str] = "rounds"
    section = Section.FAIRNESS
    rank = 20
    draws = (participation_over_rounds,)
    heading = "Participation in each round"

    @property
    def how(self) -> str:
        """Caption of the figure."""
        if any(len(client_shares(run)) > MOST_DOTS for run in self.source.runs):
            return (
                "Rows are tenths of the clients, the fastest at the top; the stronger the colour, "
                "the more of them took part in those rounds."
            )
        return "Rows are clients, the fastest at the top; a filled cell took part in those rounds."
