"""Waiting in gossip in steps: the neighbours that nodes wait for, and for how long."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.report.figures import charts, marks
from rayfed.report.figures.clients import named
from rayfed.report.figures.style import NAMED, algorithm_styles, canvas, colorbar, fade
from rayfed.report.panels.base import RunPanel, Section
from rayfed.report.read import units
from rayfed.report.read.results import Results, RunRecord

MOST_BARS = 10
MOST_NODES = 64
"""Most nodes of which each pair is shown."""
_BAR, _SIDE = 28, 560  # pixels


def pairs(run: RunRecord) -> pd.DataFrame:
    """Return the seconds that nodes waited for each other, summed over the run.

    A node waits from the end of its own step until it mixes. The wait counts for the neighbour
    whose message of the step comes last.

    Parameters
    ----------
    run : RunRecord
        A run of gossip in steps.

    Returns
    -------
    DataFrame (N, N)
        A row for each node that waits, a column for each that it waits for, by id.

    Raises
    ------
    NothingToDraw
        If the run recorded no waits.
    """
    events = run.waits
    if not len(events):
        raise marks.NothingToDraw.of(run, "has no nodes that wait for their neighbours")
    nodes = np.unique([*run.clients.get("client", ()), *events["client"]])
    known = events[events["awaited"] >= 0]
    sums = known.pivot_table(
        index="client", columns="awaited", values="wait_s", aggfunc="sum", fill_value=0.0
    )
    return sums.reindex(index=nodes, columns=nodes, fill_value=0.0).astype(float)


def waits(results: Results, name: str, seed: int) -> go.Figure:
    """Draw the nodes that others wait for longest, in seconds summed over nodes and steps.

    Parameters
    ----------
    results : Results
        A result folder.
    name : str
        The algorithm.
    seed : int
        The seed; its run must be of gossip in steps.

    Returns
    -------
    Figure
        A bar for each of at most ten nodes; ``layout.meta["note"]`` has the share of waiting.

    Raises
    ------
    NothingToDraw
        If the run recorded no waits.
    """
    run = results.run(name, seed)
    by_node = pairs(run).sum(axis=0)
    most = by_node.sort_values(ascending=False, kind="stable").head(MOST_BARS)
    names, total = [str(node) for node in run.called(most.index)], float(by_node.sum())
    figure = charts.rows(names, _BAR)
    charts.parts(
        figure, np.arange(len(most)), pd.DataFrame({"wait": most.to_numpy()}),
        {"wait": algorithm_styles(results)[name].light}, "waited for %{x:.4~g} s",
    )  # fmt: skip
    if total:
        shares = [f"{100 * wait / total:.1f} %" for wait in most]
        charts.ends(figure, np.arange(len(most)), most.to_numpy(), shares)
    lasting_s = float((run.waits["end_s"] - run.waits["start_s"]).sum())
    share = 100 * total / lasting_s if lasting_s else 0.0
    note = f"Nodes wait {units.number(share)} % of the time of their steps."
    longest = float(most.max()) or 1.0
    title, ends = "seconds that nodes wait for it", [0, 1.15 * longest]
    figure.update_xaxes(title_text=title, range=ends, nticks=5)  # level labels on a phone, too
    figure.update_yaxes(title_text="node")
    return figure.update_layout(meta={**figure.layout.meta, "note": note})


def wait_pairs(results: Results, name: str, seed: int) -> go.Figure:
    """Draw the seconds that each node waits for each neighbour, as a heat map.

    Parameters
    ----------
    results : Results
        A result folder.
    name : str
        The algorithm.
    seed : int
        The seed; its run must be of gossip in steps with at most 64 nodes.

    Raises
    ------
    NothingToDraw
        If the run recorded no waits, nobody waited, or there are more nodes.
    """
    run = results.run(name, seed)
    table = pairs(run)
    if len(table) > MOST_NODES or not table.to_numpy().any():
        raise marks.NothingToDraw.of(run, f"has no waits among at most {MOST_NODES} nodes")
    names, figure = run.called(table.index), canvas(_SIDE, hovermode="closest")
    at = np.arange(len(names))
    marks.mark(
        figure, "heatmap", "pairs", "node %{y} waits %{z:.3~g} s for node %{x}",
        x=at, y=at, z=[[float(f"{wait:.3g}") for wait in row] for row in table.to_numpy()],
        zmin=0, colorscale=fade(algorithm_styles(results)[name]), colorbar=colorbar("wait (s)"),
    )  # fmt: skip
    ticks: dict[str, Any] = {"showgrid": False, "constrain": "domain"}
    figure.update_xaxes(title_text="node that is waited for", **ticks)
    figure.update_yaxes(title_text="node that waits", autorange="reversed", **ticks)
    if len(names) <= NAMED:
        figure.update_xaxes(named(names, across=True)).update_yaxes(named(names))
    return figure


class WaitsPanel(RunPanel):
    """The nodes of the chosen run that others wait for longest."""

    name: ClassVar[str] = "waits"
    section = Section.GRAPH
    rank = 10
    draws = (waits,)
    heading = "Nodes that others wait for"
    how = (
        "The ten nodes that neighbours wait for longest, with their share of all waiting. A node "
        "waits from the end of its own step until it mixes; its wait counts for the neighbour "
        "whose message comes last."
    )

    @property
    def brief(self) -> str:
        """The sentence for runs in which nobody waits; empty otherwise."""
        waited = any(run.waits["wait_s"].any() for run in self.source.runs)
        return "" if waited else "No node waits for its neighbours."


class WaitPairsPanel(RunPanel):
    """The waits of the chosen run between every two nodes."""

    name: ClassVar[str] = "wait-pairs"
    section = Section.GRAPH
    rank = 11
    draws = (wait_pairs,)
    heading = "Waits between nodes"
    how = "Seconds that each node waits for each other, summed over the run."
