"""What the clients' time went into: of each algorithm, and of each client of a run."""

from __future__ import annotations

from typing import ClassVar

import plotly.graph_objects as go

from rayfed.report.figures import utilisation, utilisation_of_clients
from rayfed.report.figures.clients import tenths
from rayfed.report.figures.utilisation import MOST_ROWS, WORDS, algorithm_shares
from rayfed.report.panels.base import FigurePanel, RunPanel, Section
from rayfed.report.panels.phrases import MOST_NAMED, joined, quoted
from rayfed.report.read import units
from rayfed.report.read.results import Results, Run


class UtilisationPanel(FigurePanel):
    """A bar for each algorithm: the shares of the time of its clients."""

    name: ClassVar[str] = "utilisation"
    section = Section.CLIENTS
    rank = 10
    best_only = True

    @property
    def applies(self) -> bool:
        """Whether any run recorded what its clients did."""
        return len(algorithm_shares(self.results)) > 0

    def title(self) -> str:
        """Return how much of the time clients computed, waited and were not asked."""
        return title(self.results)

    def figure(self) -> go.Figure:
        """Return `figures.utilisation`."""
        return utilisation(self.results)

    @property
    def key(self) -> list[tuple[str, str]]:
        """The key of the bars: the class of each box, and its meaning."""
        away = algorithm_shares(self.results)["away"].notna().any()
        words = WORDS | ({} if away else {"idle": f"{WORDS['idle']}, or away"})
        return [(state, text) for state, text in words.items() if away or state != "away"]

    @property
    def colour(self) -> str:
        """The colour of the first algorithm that has a bar, as the style sheet names it."""
        first = str(algorithm_shares(self.results).index[0])
        return f"var(--a{self.source.colour_place(first)})"


class ClientsUtilisationPanel(RunPanel):
    """A bar for each client of the chosen run, or for each tenth of them by speed."""

    name: ClassVar[str] = "utilisation-clients"
    section = Section.CLIENTS
    rank = 20

    @property
    def applies(self) -> bool:
        """Whether any run recorded what its clients did."""
        return any(run.usage.shares is not None for run in self.source.runs)

    @property
    def how(self) -> str:
        """How to read the figure."""
        return (
            "The time of each client that was asked, in the colours of the figure above; the "
            "fastest client is at the top. Shows the run chosen above."
        )

    def title(self, run: Run) -> str:
        """Return who computed most and least of the time."""
        return clients_title(run)

    def figure(self, run: Run) -> go.Figure:
        """Return `figures.utilisation_of_clients`."""
        return utilisation_of_clients(self.results, run.name, run.seed)


def title(results: Results) -> str:
    """Return how much of the time clients computed, waited and were not asked."""
    shares = algorithm_shares(results)
    first = next((name for name in results.rivals if name in shares.index), str(shares.index[0]))
    one = dict(zip(shares.columns, shares.loc[first].to_numpy(float).tolist(), strict=True))
    parts = [f"clients computed {units.share(one['computing'])} of the time"]
    if one["finished"] > 0:
        parts.append(f"waited {units.share(one['finished'])} for a round to end")
    text = joined([*parts, f"were not asked in {units.share(one['idle'])}"])
    others = [name for name in results.rivals if name in shares.index and name != first]
    computing = shares["computing"].to_dict()
    rest = [
        f"{units.share(computing[name])} with {quoted(name)}" for name in others[: MOST_NAMED - 1]
    ]
    return f"With {quoted(first)} {text}" + (f"; they computed {joined(rest)}" if rest else "")


def clients_title(run: Run) -> str:
    """Return who computed most and least of the time of a run."""
    seconds = run.usage.activity
    if seconds is None:
        return f"What the clients of {quoted(run.name)} did is not compared"
    order = [client for client in run.clients_by_speed.index if client in seconds.index]
    seconds = seconds.loc[order]
    start = f"With {quoted(run.name)} "
    if len(seconds) > MOST_ROWS:
        bands = tenths(seconds)
        ends = (bands["computing"] / bands.sum(axis=1)).to_numpy()
        return (
            f"{start}the fastest tenth of the clients computed {units.share(ends[0])} of the "
            f"time, the slowest tenth {units.share(ends[-1])}"
        )
    shares = (seconds["computing"] / seconds.sum(axis=1)).to_numpy(float)
    low, high = int(shares.argmin()), int(shares.argmax())
    text = f"{start}client {order[high]} computed {units.share(shares[high])} of the time"
    if shares[high] == shares[low]:
        return text if len(shares) == 1 else f"{start}all clients computed equally long"
    return f"{text}, most of all, and client {order[low]} least, {units.share(shares[low])}"
