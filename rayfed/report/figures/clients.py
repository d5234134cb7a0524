"""Clients in figures: order by speed, and words for their states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.report.figures import marks
from rayfed.report.figures.labels import plain
from rayfed.report.figures.style import NAMED

FAULTY = "x-thin"  # symbol of clients that are faulty
MOST_DOTS = 200  # clients beyond this are taken together
_LETTERS, _SHORT = 18, 3  # of a name, and of one that may lie where many stand side by side
PATTERNS = {"late": "/", "dropped": "x", "unfinished": ".", "communicating": "|"}
"""Patterns of bars: tasks whose replies were not used, and time on the network."""
TENTHS = [str(k) for k in range(1, 11)]
WORDS = {
    "computing": "computing",
    "communicating": "transfer",
    "finished": "waiting",
    "idle": "idle",
    "away": "away",
}
"""States of clients, for hovers and legends."""
MEANINGS = WORDS | {"finished": "waiting for others", "idle": "available, idle"}
"""The same for keys above figures."""


def tenths(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the sums over ten bands of a table's rows, which hold as many rows as possible each.

    Examples
    --------
    >>> tenths(pd.DataFrame({"a": [1] * 25}))["a"].tolist()
    [3, 2, 3, 2, 3, 2, 3, 2, 3, 2]
    """
    band = np.arange(len(frame)) * 10 // len(frame)
    return frame.groupby(band).sum(min_count=1)


def fifth(number: int) -> int:
    """Return the size of the slowest fifth of clients: at least one."""
    return max(1, round(number / 5))


def tenths_across(figure: go.Figure, count: int) -> None:
    """Let the x axis be tenths of so many clients by speed, and say so."""
    ends = ["fastest", "", *TENTHS[2:-2], "", "slowest"]  # on a phone, words reach over a neighbour
    axis = {"type": "category", "showgrid": False, "tickangle": 0}
    figure.update_xaxes(title_text="clients by speed", tickvals=TENTHS, ticktext=ends, **axis)
    note = f"{count:,} clients are taken together in tenths of equal speed rank."
    figure.update_layout(meta={"note": note})


def clients_down(
    figure: go.Figure, names: Sequence[int | str], bands: int, order: str = "fastest"
) -> None:
    """Let the y axis be clients in an order, named where they are few, or bands of them."""
    single = bands == len(names)
    low, high, unit = (-0.5, bands - 0.5, "") if single else (0.0, 100.0, " (%)")
    title = f"client, {order} at the top{unit}"
    figure.update_yaxes(title_text=title, range=[high, low], showgrid=False)
    if single and bands <= NAMED:
        figure.update_yaxes(named(names))


def clients_in_rows(figure: go.Figure, names: Sequence[int | str]) -> None:
    """Let the y axis be a row for each client, the fastest at the top, named where there is room.

    There is for those that the data name, however many they are.
    """
    room = len(names) <= NAMED or any(isinstance(name, str) for name in names)
    figure.layout.yaxis.update(
        title_text="client, fastest at the top", range=[len(names) - 0.4, -0.6],
        showticklabels=room, showgrid=False, **(named(names) if room else {}),
    )  # fmt: skip


def clients_across(figure: go.Figure, names: Sequence[int | str], title: str) -> None:
    """Let the x axis be clients in an order that the title tells, named where they are few."""
    few = len(names) <= NAMED
    figure.update_xaxes(
        title_text=title, range=[-0.7, len(names) - 0.3], showgrid=False, showticklabels=few,
        **(named(names, across=True) if few else {}),
    )  # fmt: skip


def named(names: Sequence[int | str], across: bool = False) -> dict[str, Any]:
    """Return the ticks of an axis on which each client has its name, with room for all of them."""
    texts = [plain(str(name), _LETTERS) for name in names]
    turned = across and max(map(len, texts), default=0) > _SHORT
    ticks = {"tickvals": list(range(len(texts))), "ticktext": texts, "automargin": True}
    return ticks | ({"tickangle": -90} if turned else {})


def clients_over_rounds(
    figure: go.Figure, part: str, z: Any, x: Sequence[Any], names: Sequence[int | str], hover: str,
    order: str = "fastest", **is_: Any,
) -> None:  # fmt: skip
    """Add a heat map of clients, or bands of them, in an order over rounds.

    Parameters
    ----------
    z : (bands, rounds) array
    names : sequence
        Of all clients; there are as many bands, or fewer.
    hover : str
        What a hover says of a cell, after the clients and the round.
    """
    bands, single = len(z), len(z) == len(names)
    who = "client %{customdata}" if single else "clients around %{y:.0f} %"
    marks.mark(
        figure, "heatmap", part, f"{who}, round {hover}", z=z, x=x, ygap=1,
        y=np.arange(bands) if single else (np.arange(bands) + 0.5) * 100 / bands,
        customdata=[[name] * len(x) for name in names] if single else None, **is_,
    )  # fmt: skip
    figure.update_xaxes(title_text="round", showgrid=False)
    clients_down(figure, names, bands, order)
