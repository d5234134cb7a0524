"""Graphs of gossip over time, with the quality of each node's model."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import plotly.graph_objects as go

from rayfed.core.errors import many
from rayfed.report.figures import marks
from rayfed.report.figures.graphs import pairs, places
from rayfed.report.figures.palette import LIGHT
from rayfed.report.figures.style import FONT_SIZE, NAMED, algorithm_styles, canvas, colorbar, fade
from rayfed.report.panels.base import RunPanel, Section, short
from rayfed.report.read import personal, units
from rayfed.report.read.curves import thin
from rayfed.report.read.outputs import Walked
from rayfed.report.read.results import Results, RunRecord

HEIGHT = 600
MOST_STEPS = 40
"""At most so many evaluated steps have a place on the slider."""
_MOST_NUMBERS = 20_000  # of nodes and links at all steps


def graph(results: Results, name: str, seed: int) -> go.Figure:
    """Draw the nodes and links of a run without a server at each of its evaluated steps.

    Dots are filled by the accuracy of the node's own model on its own rows, or by the loss without
    classes; a slider changes the step.

    Parameters
    ----------
    results : Results
        A result folder.
    name : str
        The algorithm.
    seed : int
        The seed; its run must be of a gossip method.

    Raises
    ------
    NothingToDraw
        If the run had a server, or the nodes' models were not recorded.
    """
    run = results.run(name, seed)
    known = run.graph
    if known is None or not len(run.personal):
        raise marks.NothingToDraw.of(run, "has no graph of nodes with models of their own")
    kind, steps = personal.measure(run), _steps(run, known)
    own, apart = (
        run.personal.pivot(index="round", columns="client", values=column).reindex(
            columns=known.clients
        )
        for column in (f"personal_{kind}", "distance")
    )
    at = np.clip(np.searchsorted(known.round, steps, side="left"), 0, len(known.round) - 1)
    graphs, graph_of = np.unique(known.graph[at], return_inverse=True)
    x, y = places(known, graphs)
    frames = []
    for round_number, g in zip(steps.tolist(), graph_of.tolist(), strict=True):
        spot = min(g, len(x) - 1)
        links = pairs(x[spot], y[spot], known.links_of(graphs[g]).ravel().tolist())
        values, far = own.loc[round_number].to_numpy(float), apart.loc[round_number]
        about = [
            f"client {client}: {kind} {units.number(value)}, {units.number(distance)} from the mean"
            for client, value, distance in zip(run.called(known.clients), values, far, strict=True)
        ]
        frames.append((links, {"x": x[spot], "y": y[spot]}, short(values, 3), about))
    figure = _drawn(run, known, algorithm_styles(results)[name], kind, frames[-1])
    numbers = own.loc[steps[1:] if len(steps) > 1 else steps].to_numpy(float)  # learned ones
    figure.data[1].marker.update(cmin=np.nanmin(numbers), cmax=np.nanmax(numbers))
    return figure.update_layout(sliders=[_slider(run, steps, frames)])


def _steps(run: RunRecord, known: Walked) -> np.ndarray:
    """Return the evaluated steps of the slider, the last included."""
    steps = np.sort(run.personal["round"].unique())
    each = len(known.clients) + 2 * len(known.links) // max(1, len(known.starts) - 1)
    return thin(steps, min(len(steps), MOST_STEPS, max(2, _MOST_NUMBERS // max(1, each))))


def _drawn(run: RunRecord, known: Walked, style: Any, kind: str, last: Any) -> go.Figure:
    """Return the figure at the last step."""
    links, dots, values, about = last
    figure, few = canvas(HEIGHT, hovermode="closest"), len(known.clients) <= NAMED
    bar = colorbar(f"{kind} of the node's own model")
    marks.lines(figure, "links", links["x"], links["y"], {"color": LIGHT["strip"], "width": 1})
    marks.dots(
        figure, "nodes", dots["x"], dots["y"],
        {"color": np.array(values, float), "size": 17 if few else 10, "colorscale": fade(style),
         "colorbar": bar, "line": {"color": style.light, "width": 1}, "opacity": 1},
        "%{hovertext}", hovertext=about, mode="markers+text" if few else "markers",
        text=[str(client) for client in run.called(known.clients)] if few else None,
        textposition="top right", textfont={"color": LIGHT["muted"], "size": 11},
    )  # fmt: skip
    metres = bool(known.places.size)
    for axis in ("x", "y"):
        shown = {"title_text": f"{axis} (m)"} if metres else {"showticklabels": False}
        figure.update_layout({f"{axis}axis": {"showgrid": metres, "constrain": "domain", **shown}})
    figure.update_yaxes(scaleanchor="x", scaleratio=1)
    return figure.update_layout(margin_b=110)


def _slider(run: RunRecord, steps: np.ndarray, frames: list[Any]) -> dict[str, Any]:
    """Return the slider over steps, each with the data of both traces."""
    times = run.rounds.set_index("round")["time_s"]
    made = []
    for round_number, (links, dots, values, about) in zip(steps.tolist(), frames, strict=True):
        data = {
            "x": [links["x"], dots["x"]], "y": [links["y"], dots["y"]],
            "marker.color": [None, values], "hovertext": [None, about],
        }  # fmt: skip
        label = f"{units.count(round_number)}, {units.duration(float(times[round_number]))}"
        made.append({"method": "restyle", "label": label, "args": [data, [0, 1]]})
    font = {"size": FONT_SIZE, "color": LIGHT["muted"]}
    return {
        "active": len(made) - 1, "steps": made, "pad": {"t": 40}, "ticklen": 0, "minorticklen": 0,
        "font": {**font, "color": "rgba(0,0,0,0)"}, "bgcolor": LIGHT["grid"], "borderwidth": 0,
        "activebgcolor": LIGHT["strip"],
        "currentvalue": {"prefix": "step ", "font": font, "xanchor": "left"},
    }  # fmt: skip


def title(run: RunRecord) -> str:
    """Return the heading of a run's graph, with the number of steps in which it was repaired."""
    known = run.graph
    if known is None or not known.repaired.any():
        return GraphPanel.heading
    steps, repaired = len(known.graph), int(known.repaired[known.graph].sum())
    when = f" in {repaired:,} of {many(steps, 'step')}" if known.changes else ""
    return f"{GraphPanel.heading}; links were added to connect the graph{when}"


def eigenvalue_note(run: RunRecord) -> str:
    """Return the second eigenvalue of the mixing, and the evenness of its left eigenvector."""
    known = run.graph
    if known is None or np.isnan(known.lambda_2).all():
        return ""
    rate = float(np.nanmedian(known.lambda_2))
    text = f"Second eigenvalue of the mixing: {units.number(rate)}"
    if 0 < rate < 1:
        number = int(np.ceil(np.log(0.1) / np.log(rate)))
        text += f"; after {units.count(number)} steps of mixing a tenth of a difference remains"
    return f"{text}."


class GraphPanel(RunPanel):
    """The graph of the chosen run at each evaluated step."""

    name: ClassVar[str] = "graph"
    section = Section.GRAPH
    rank = 0
    draws = (graph,)
    heading = "Nodes and their models"
    how = (
        "Lines are links between nodes. A stronger colour is a higher accuracy of a node's own "
        "model on its own rows, or a higher loss without classes. The slider changes the step."
    )

    def title(self, run: RunRecord) -> str:
        """Return the heading, with the number of repaired graphs if any."""
        return title(run)

    def figure(self, run: RunRecord) -> go.Figure:
        """Return the figure with the rate of mixing as its note."""
        figure = super().figure(run)
        return figure.update_layout(meta={"note": eigenvalue_note(run)})
