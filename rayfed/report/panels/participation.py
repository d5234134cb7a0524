"""Who took part: against the data that clients hold, and in which rounds."""

from __future__ import annotations

from typing import ClassVar

import plotly.graph_objects as go

from rayfed.report.figures import participation, participation_over_rounds
from rayfed.report.figures.participation import MOST_DOTS, client_shares, fifth
from rayfed.report.panels.base import RunPanel, Section
from rayfed.report.panels.phrases import quoted, times
from rayfed.report.read import units
from rayfed.report.read.results import Run

_SINGLE = 60  # most clients of whom a sentence names one


class ParticipationPanel(RunPanel):
    """Each client's share of the updates against its share of the data."""

    name: ClassVar[str] = "participation"
    section = Section.FAIRNESS
    rank = 10
    clickable = True

    @property
    def how(self) -> str:
        """How to read the figure."""
        if any(len(client_shares(run)) > MOST_DOTS for run in self.source.runs):
            return (
                "Ten bands of clients of equal speed rank: grey their share of the data, coloured "
                "their share of the updates. Shows the run chosen above."
            )
        return (
            "One dot for each client; open circles are the slowest fifth. On the dashed line a "
            "client counts as much as its data, below it less. Shows the run chosen above."
        )

    def title(self, run: Run) -> str:
        """Return what the slowest fifth of the clients gave against what they hold."""
        return title(run)

    def figure(self, run: Run) -> go.Figure:
        """Return `figures.participation`."""
        return participation(self.results, run.name, run.seed)


class ParticipationOverRoundsPanel(RunPanel):
    """Which clients took part in which rounds."""

    name: ClassVar[str] = "rounds"
    section = Section.FAIRNESS
    rank = 20

    @property
    def how(self) -> str:
        """How to read the figure."""
        if any(len(client_shares(run)) > MOST_DOTS for run in self.source.runs):
            return (
                "Rows are tenths of the clients, the fastest at the top; the stronger the colour, "
                "the more of them took part in those rounds."
            )
        return "Rows are clients, the fastest at the top; a filled cell took part in those rounds."

    def title(self, run: Run) -> str:
        """Return how often clients took part, from the rarest to the most frequent."""
        return rounds_title(run)

    def figure(self, run: Run) -> go.Figure:
        """Return `figures.participation_over_rounds`."""
        return participation_over_rounds(self.results, run.name, run.seed)


def title(run: Run) -> str:
    """Return what the slowest fifth of the clients gave against what they hold."""
    shares = client_shares(run)
    if not len(shares) or shares["used"].sum() == 0:
        return "Who took part was not recorded for this run"
    if shares["speed_s"].isna().all() or len(shares) < 2:
        return f"{len(shares):,} clients took part with {quoted(run.name)}"
    slow = shares.iloc[len(shares) - fifth(len(shares)) :]
    given, held = float(slow["updates"].sum()), float(slow["data"].sum())
    return (
        f"With {quoted(run.name)} the slowest fifth of the clients gave {units.share(given)} of "
        f"the updates and hold {units.share(held)} of the data"
    )


def rounds_title(run: Run) -> str:
    """Return how often clients took part, from the rarest to the most frequent.

    Only clients that are recorded are counted.
    """
    used = client_shares(run)["used"]
    rounds = int(run.rounds["round"].max()) if len(run.rounds) else 0
    if not len(used) or not rounds:
        return "Who took part in which rounds"
    low, high = int(used.min()), int(used.max())
    if low == high:
        return f"Every client took part {times(low)} in {rounds:,} rounds"
    if len(used) > _SINGLE:
        return f"Clients took part {low} to {high} times in {rounds:,} rounds, on average " + (
            f"{units.number(float(used.mean()), 2)} times"
        )
    seldom = f"took part least, {times(low)}" if low else "never took part"
    rare, often = run.called((used.idxmin(), used.idxmax()))
    return (
        f"Client {rare} {seldom} in {rounds:,} rounds, "
        f"client {often} {'most' if low else 'most often'}, {times(high)}"
    )
