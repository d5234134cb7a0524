"""Labels that clients hold."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.core.arrays import Floats
from rayfed.report.figures import marks
from rayfed.report.figures.clients import clients_down
from rayfed.report.figures.labels import plain
from rayfed.report.figures.marks import NothingToDraw
from rayfed.report.figures.style import NAMED, algorithm_styles, canvas, colorbar, fade
from rayfed.report.panels.base import RunPanel, Section
from rayfed.report.read import parts, units
from rayfed.report.read.results import Results, RunRecord

HEIGHT = 400
SINGLE = 60  # clients up to which each has a row
_ROW = 17  # pixels
_WRITTEN = 12  # classes up to which numbers fit their cells
BINS = tuple(str(k) for k in range(0, 101, 10))
"""Largest share of a client's rows in each bin, of many clients; percent."""


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
        raise NothingToDraw(f"the run of {name}, seed {seed}, has no record of its clients' labels")
    shares = label_shares(counts)
    scale = fade(algorithm_styles(results)[name])
    few = len(counts) <= SINGLE
    figure = _rows(run, counts, shares) if few else _histograms(counts, shares)
    figure.update_traces(colorscale=scale)
    asked = len(run.clients_by_speed)
    left = f"{len(counts):,} of {asked:,} clients that took part are counted." * (
        len(counts) < asked
    )
    together = "" if few else f"{len(counts):,} clients are drawn together."
    return figure.update_layout(meta={"note": f"{together} {left}".strip()})


def counted(run: RunRecord) -> pd.DataFrame:
    """Return the rows of each client and label, the fastest client first, without empty clients."""
    counts = parts.labels(run)
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
    figure = canvas(max(240, _ROW * len(counts) + 64), hovermode="closest")
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
    """Return a heat map with a row a label: how many clients hold how much of it."""
    # With room for rounding: a tenth of the rows is in the bin up to 10 %.
    place = np.ceil(10 * shares - 1e-9).astype(int)
    cells = np.stack([np.bincount(column, minlength=len(BINS)) for column in place.T])
    figure = canvas(max(HEIGHT // 2, _ROW * counts.shape[1] + 64), hovermode="closest")
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


def title(run: RunRecord) -> str:
    """Return how many labels clients hold, and how much of the rows the most common one is."""
    counts = counted(run)
    if not len(counts):
        return "The labels of the clients of this run are not recorded"
    held = np.sort((counts.to_numpy() > 0).sum(axis=1))
    low, high, total = int(held[0]), int(held[-1]), counts.shape[1]
    if low == high:
        number = f"Each client holds {'all' if low == total else low} of {total} labels"
    else:
        half = int(held[(len(held) - 1) // 2])
        number = f"Half of the clients hold at most {half} of {total} labels"
        if half == total:
            number = f"More than half of the clients hold all {total} labels"
    top = float(label_shares(counts).max(axis=1).mean())
    return f"{number}; the most common one has {units.share(top)} of a client's rows on average"


class LabelsPanel(RunPanel):
    """The labels of each client, or of many clients together."""

    name: ClassVar[str] = "labels"
    section = Section.FAIRNESS
    rank = 0
    draws = (labels,)
    words = staticmethod(title)
    clickable = True

    @property
    def applies(self) -> bool:
        """Whether the labels of any run's clients are recorded."""
        return any(run.held is not None for run in self.source.runs)

    @property
    def how(self) -> str:
        """How to read the figure."""
        if any(len(counted(run)) > SINGLE for run in self.source.runs):
            return (
                "The stronger the colour, the more clients have so large a part of their training "
                "rows of that label. Shows the run chosen above."
            )
        return (
            "Rows are clients, the fastest at the top; numbers are training rows. Click a cell "
            "for that client's history. Shows the run chosen above."
        )
