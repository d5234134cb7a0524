"""Simulated time as the server spends it: the rounds as a strip above what the clients did."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.report.figures.palette import LIGHT
from rayfed.report.figures.style import canvas, scale
from rayfed.report.read.results import Run
from rayfed.report.read.series import X_AXES

MARGINS = 12 + 52  # pixels of a canvas above and below its plot
STRIP = 30  # pixels of the strip with its gap


@dataclass(frozen=True)
class Clock:
    """The rounds of a run and the unit that they are drawn in.

    Parameters
    ----------
    rounds : DataFrame
        ``round``, its ``start`` and ``end`` in seconds, and what came of its replies.
    worth : float
        Seconds in a unit.
    unit, title : str
        The unit and the axis title.
    """

    rounds: pd.DataFrame
    worth: float
    unit: str
    title: str

    @property
    def end(self) -> float:
        """The end of the last round in seconds, 1 if there is none."""
        return float(self.rounds["end"].max()) if len(self.rounds) else 1.0


def round_clock(run: Run, last: int | None = None) -> Clock:
    """Return the clock of a run up to a round."""
    rounds = run.rounds[run.rounds["round"] > 0]
    ends = rounds["time_s"].to_numpy(float)
    first = run.rounds["time_s"].to_numpy(float)[:1] if len(rounds) < len(run.rounds) else [0.0]
    frame = pd.DataFrame(
        {"round": rounds["round"].to_numpy(), "start": np.r_[first, ends[:-1]], "end": ends}
    ).join(rounds[["participants", "late", "dropped"]].reset_index(drop=True))
    frame = frame if last is None else frame[frame["round"] <= last]
    chosen = scale(X_AXES["time_s"], float(frame["end"].max()) if len(frame) else 1.0)
    return Clock(frame, chosen["worth"], chosen["unit"], chosen["title"])


def canvas_with_rounds(height: int, clock: Clock) -> go.Figure:
    """Return a canvas with the server's rounds as a strip above the plot."""
    figure = canvas(height, barmode="overlay", bargap=0, hovermode="closest", dragmode="zoom")
    inside = height - MARGINS
    split = 1 - STRIP / inside
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
            "ticklabelstandoff": 6,
            "tickfont": {"color": LIGHT["muted"]},
        },
    )
    _strip(figure, clock)
    figure.update_xaxes(title_text=clock.title, rangemode="tozero")
    # Round numbers that would have to shrink to fit are left out.
    figure.update_layout(uniformtext={"mode": "hide", "minsize": 8})
    return figure


def _strip(figure: go.Figure, clock: Clock, most: int = 400) -> None:
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
