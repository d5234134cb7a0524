"""What was done in vain, and what energy computing took."""

from __future__ import annotations

from typing import ClassVar

import pandas as pd
import plotly.graph_objects as go

from rayfed.report.figures import energy, waste
from rayfed.report.figures.waste import bytes_wasted, computing_by_status, energy_by_status
from rayfed.report.panels.base import FigurePanel, Section
from rayfed.report.panels.phrases import MOST_NAMED, joined, quoted
from rayfed.report.read import units
from rayfed.report.read.results import Results
from rayfed.report.read.usage import FAILED


class WastePanel(FigurePanel):
    """The shares of computing and of bytes that went into replies that were not used."""

    name: ClassVar[str] = "waste"
    section = Section.CLIENTS
    rank = 30
    best_only = True

    @property
    def applies(self) -> bool:
        """Whether any reply was not used."""
        computing = computing_by_status(self.results)
        wasted = bytes_wasted(self.results)["wasted"] if len(computing) else pd.Series(dtype=float)
        return len(computing) > 0 and bool(
            (computing[list(FAILED)] > 0).to_numpy().any() or (wasted > 0).any()
        )

    def title(self) -> str:
        """Return which share of computing and of bytes was in vain."""
        return title(self.results)

    def figure(self) -> go.Figure:
        """Return `figures.waste`."""
        return waste(self.results)

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
    best_only = True

    @property
    def applies(self) -> bool:
        """Whether the power of any client is recorded."""
        return len(energy_by_status(self.results)) > 0

    @property
    def how(self) -> str:
        """How to read the figure."""
        return (
            "The power of each client's device times the seconds that it computed, over all "
            "clients, mean over seeds; patterned what was in vain, as above. Communicating and "
            "waiting are not counted."
        )

    def title(self) -> str:
        """Return how much energy each algorithm took."""
        return energy_title(self.results)

    def figure(self) -> go.Figure:
        """Return `figures.energy`."""
        return energy(self.results)


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
