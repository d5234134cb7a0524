"""Work in vain, and the energy of computing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.core.arrays import Floats
from rayfed.report.figures import marks
from rayfed.report.figures.labels import plain
from rayfed.report.figures.marks import NothingToDraw
from rayfed.report.figures.palette import LIGHT
from rayfed.report.figures.style import algorithm_styles, canvas
from rayfed.report.panels.base import FigurePanel, Section
from rayfed.report.panels.phrases import MOST_NAMED, joined, quoted
from rayfed.report.read import units
from rayfed.report.read.results import Results, RunRecord
from rayfed.report.read.series import Axis
from rayfed.report.read.usage import FAILED

_COLOURS = {"late": "late", "dropped": "dropped", "unfinished": "strip"}
_PATTERN = {"late": "/", "dropped": "x", "unfinished": "."}
_ROW, _MARGINS = 58, 64  # pixels
_ENERGY = Axis("energy_j", "energy", (("J", 1.0), ("kJ", 1e3), ("MJ", 1e6), ("GJ", 1e9)))
_ROOM = 1.9  # the axis against the longest bar: there is text behind it


def waste(results: Results) -> go.Figure:
    """Draw which share of computing and of bytes went into replies that were not used.

    Parameters
    ----------
    results : Results
        A result folder.

    Returns
    -------
    Figure
        Two bars for each algorithm, means over seeds: above computing by what became of the work,
        below bytes.

    Raises
    ------
    ValueError
        If no run recorded what its clients did.
    """
    computing, sent = computing_by_status(results), bytes_wasted(results)
    if not len(computing):
        raise NothingToDraw("no run recorded what its clients did")
    shares = 100 * computing.div(computing.sum(axis=1).replace(0.0, np.nan), axis=0).fillna(0.0)
    figure = _rows(list(map(str, computing.index)))
    y = np.arange(len(computing), dtype=np.float64) - 0.2
    _add_failed(figure, y, shares, computing, units.duration)
    in_vain = computing[list(FAILED)].sum(axis=1)
    ends = shares[list(FAILED)].sum(axis=1)
    texts = [
        f"{units.share(end / 100)}, {units.duration(seconds)}"
        for end, seconds in zip(ends, in_vain, strict=True)
    ]
    _add_texts(figure, y, ends.to_numpy(), texts)
    lost = 100 * sent["share"].reindex(computing.index).to_numpy(float)
    amounts = sent["wasted"].reindex(computing.index)
    known = np.isfinite(lost)
    marks.bars(
        figure, "bytes", lost[known].round(4), (y + 0.4)[known], LIGHT["muted"],
        "bytes in vain: %{x:.3~g} %", orientation="h", name="bytes", width=0.34,
    )  # fmt: skip
    texts = [
        f"{units.share(end / 100)}, {units.size(float(amount))}"
        for end, amount in zip(lost, amounts, strict=True)
    ]
    _add_texts(figure, (y + 0.4)[known], lost[known], [texts[k] for k in np.flatnonzero(known)])
    longest = max(float(ends.max()), float(np.nanmax(lost, initial=0.0))) or 1.0
    figure.update_xaxes(title_text="in vain (%)", range=[0, _ROOM * longest])
    return figure


def energy(results: Results) -> go.Figure:
    """Draw the energy that clients computed with, and how much of it was in vain.

    Parameters
    ----------
    results : Results
        A result folder.

    Returns
    -------
    Figure
        A bar for each algorithm, mean over seeds, by what became of the work.

    Raises
    ------
    ValueError
        If the power of no client is recorded.
    """
    joules = energy_by_status(results)
    if not len(joules):
        raise NothingToDraw("no run knows the power of its clients; give a delay trace with watts")
    figure = _rows(list(map(str, joules.index)), 38)
    whole = joules.sum(axis=1).to_numpy(float)
    unit, worth = _ENERGY.unit(float(whole.max()))
    y = np.arange(len(joules), dtype=float)
    styles = algorithm_styles(results)
    marks.bars(
        figure, "used", (joules["used"] / worth).round(6), y,
        [styles[str(name)].light for name in joules.index], "used: %{customdata}",
        customdata=[units.energy(float(value)) for value in joules["used"]],
        orientation="h", name="used", width=0.6,
    )  # fmt: skip
    _add_failed(figure, y, joules / worth, joules, units.energy, width=0.6)
    failed = joules[list(FAILED)].sum(axis=1)
    texts = [
        f"{units.energy(all_)}, {units.share(lost / all_ if all_ else 0.0)} in vain"
        for all_, lost in zip(whole, failed, strict=True)
    ]
    _add_texts(figure, y, whole / worth, texts)
    top = float(whole.max()) / worth or 1.0
    figure.update_xaxes(title_text=f"energy of computing ({unit})", range=[0, _ROOM * top])
    return figure


def _asked(run: RunRecord) -> bool:
    """Whether it is known what the clients of a run did, and compared."""
    return run.usage.shares is not None


def computing_by_status(results: Results) -> pd.DataFrame:
    """Return seconds of computing by what became of the work, a row an algorithm, means."""
    return results.means(lambda run: run.usage.computing if _asked(run) else None).T


def energy_by_status(results: Results) -> pd.DataFrame:
    """Return joules of computing by what became of the work, a row an algorithm, means."""
    return results.means(lambda run: run.usage.energy if _asked(run) else None).T


def bytes_wasted(results: Results) -> pd.DataFrame:
    """Return the bytes in vain and their share of all, a row an algorithm, means over seeds."""
    rows = {}
    for name in results.names:
        found = [run.usage.totals for run in results.usable(name)]
        frame = pd.DataFrame(found).reindex(columns=["wasted_bytes", "wasted_bytes_share"])
        rows[name] = frame.mean().set_axis(["wasted", "share"])
    return pd.DataFrame(rows).T


def _add_failed(
    figure: go.Figure, y: Floats, lengths: pd.DataFrame, amounts: pd.DataFrame,
    text: Callable[[float], str], width: float = 0.34,
) -> None:  # fmt: skip
    """Add a part of each bar for every status of replies that were not used."""
    for status in FAILED:
        marks.bars(
            figure, status, lengths[status].to_numpy(float).round(6), y, LIGHT[_COLOURS[status]],
            f"{status}: %{{customdata}}", _PATTERN[status], orientation="h", name=status,
            width=width, customdata=[text(float(value)) for value in amounts[status]],
        )  # fmt: skip


def _add_texts(figure: go.Figure, y: Floats, ends: Floats, texts: Sequence[str]) -> None:
    """Write behind the ends of bars."""
    font, shown = {"size": 12, "color": LIGHT["ink"]}, [f" {text}" for text in texts]
    marks.texts(figure, "text", ends, y, shown, font, textposition="middle right")


def _rows(names: Sequence[str], row: int = _ROW) -> go.Figure:
    """Return a canvas with a row for each algorithm."""
    figure = canvas(_MARGINS + row * len(names), barmode="stack", hovermode="closest")
    figure.update_yaxes(
        tickvals=list(range(len(names))), ticktext=[plain(name) for name in names],
        range=[len(names) - 0.5, -0.5], automargin=True, showgrid=False, nticks=None,
    )  # fmt: skip
    return figure


def title(results: Results) -> str:
    """Return which share of computing and of bytes was in vain, the most wasteful first."""
    computing, lost = computing_by_status(results), bytes_wasted(results)
    rivals = [name for name in results.rivals if name in computing.index]
    failed = computing[list(FAILED)].sum(axis=1)
    share = (failed / computing.sum(axis=1)).fillna(0.0)
    order = sorted(rivals or list(computing.index), key=lambda name: -share[name])
    first = order[0]
    text = (
        f"{units.share(share[first])} of the computing of {quoted(first)} was in vain, "
        f"{units.duration(failed[first])}"
    )
    if lost.loc[first, "share"] >= 0:  # it is known
        text += f", and {units.share(lost.loc[first, 'share'])} of its bytes"
    rest = [f"{units.share(share[name])} of {quoted(name)}'s" for name in order[1:MOST_NAMED]]
    return text + (f"; {joined(rest)}" if rest else "")


def energy_title(results: Results) -> str:
    """Return how much energy each algorithm took, the thriftiest first."""
    whole = energy_by_status(results).sum(axis=1)
    rivals = [name for name in results.rivals if name in whole.index] or list(whole.index)
    order = sorted(rivals, key=lambda name: whole[name])[:MOST_NAMED]
    return f"Computing took {joined([f'{units.energy(whole[n])} with {quoted(n)}' for n in order])}"


class WastePanel(FigurePanel):
    """The shares of computing and of bytes that went into replies that were not used."""

    name: ClassVar[str] = "waste"
    section = Section.CLIENTS
    rank = 30
    draws = (waste,)
    words = staticmethod(title)
    best_only = True

    @property
    def applies(self) -> bool:
        """Whether any reply was not used."""
        computing = computing_by_status(self.results)
        wasted = bytes_wasted(self.results)["wasted"] if len(computing) else pd.Series(dtype=float)
        return len(computing) > 0 and bool(
            (computing[list(FAILED)] > 0).to_numpy().any() or (wasted > 0).any()
        )

    @property
    def key(self) -> list[tuple[str, str, str]]:
        """The key of the bars: class and style of each box, and its meaning."""
        computing = computing_by_status(self.results)
        styles = {"unfinished": "background:var(--strip)"}
        found = [status for status in FAILED if (computing[status] > 0).any()]
        boxes = [("" if s in styles else s, styles.get(s, ""), s) for s in found]
        return [*boxes, ("", "background:var(--muted)", "bytes")]


class EnergyPanel(FigurePanel):
    """The energy of computing, where the power of devices is known."""

    name: ClassVar[str] = "energy"
    section = Section.CLIENTS
    rank = 40
    draws = (energy,)
    words = staticmethod(energy_title)
    best_only = True
    how = (
        "The power of each client's device times the seconds that it computed, over all "
        "clients, mean over seeds; patterned what was in vain, as above. Communicating and "
        "waiting are not counted."
    )
