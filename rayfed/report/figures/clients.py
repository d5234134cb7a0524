"""What figures of clients share: their order by speed, and words for what they do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.report.figures.style import NAMED
from rayfed.report.read.results import Results
from rayfed.report.read.usage import Usage, mean_over

MOST_DOTS = 200  # clients beyond this are taken together
TENTHS = [str(k) for k in range(1, 11)]
WORDS = {
    "computing": "computing",
    "communicating": "communicating",
    "finished": "waiting for the round to end",
    "idle": "not asked",
    "away": "away",
}


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
    """Return how many clients are the slowest fifth: at least one."""
    return max(1, round(number / 5))


def tenths_across(figure: go.Figure, count: int) -> None:
    """Let the x axis be tenths of so many clients by speed, and say so."""
    ends = ["fastest", *TENTHS[1:-1], "slowest"]
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
        figure.update_yaxes(tickvals=np.arange(bands), ticktext=[str(name) for name in names])


def by_name(results: Results, what: Callable[[Usage], pd.Series | None]) -> pd.DataFrame:
    """Return means over seeds, a row for each algorithm that has what is asked for."""
    means = {
        name: mean_over((run.usage for run in results.usable(name)), what) for name in results.names
    }
    rows = {name: values for name, values in means.items() if len(values)}
    return pd.DataFrame(rows).T if rows else pd.DataFrame()
