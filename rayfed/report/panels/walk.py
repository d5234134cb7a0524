"""Walks of the servers: step by step, visits against the long run, and mixing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import plotly.graph_objects as go

from rayfed.core.arrays import Floats, Ints
from rayfed.report.figures import marks
from rayfed.report.figures.clients import clients_across
from rayfed.report.figures.graphs import pairs, places
from rayfed.report.figures.palette import LIGHT, LineStyle
from rayfed.report.figures.style import NAMED, algorithm_styles, canvas, colorbar, fade
from rayfed.report.html import keep_units
from rayfed.report.panels.base import Panel, Section, Unique, figure_json, short
from rayfed.report.read import personal, units
from rayfed.report.read.curves import thin
from rayfed.report.read.outputs import Walked
from rayfed.report.read.results import Results, RunRecord

Steps = Mapping[str, Any]
HEIGHT = 520
TRAIL = 10
"""Number of rounds of the server's path that are drawn."""
MOST_NUMBERS = 60_000
ALL = 10**9
_BARS = 300
_MANY, _FEW = (7, 10), (12, 17)  # sizes of a dot, and of one that is asked
MOST_STEPS = 400_000  # numbers of the steps of all walks together
MOST_DISTANCES = 150_000  # distances of clients' own models of all walks together


def model_distances(run: RunRecord, steps: Steps, most: int) -> Steps | None:
    """Return the distances of clients' own models from the server's at the steps of a walk.

    Parameters
    ----------
    run : RunRecord
        A run whose server walked.
    steps : mapping
        What `walk.walk_steps` returned.
    most : int
        About how many distances are returned; beyond it evaluations are left out, evenly.

    Returns
    -------
    dict or None
        None where clients have no models of their own besides a global one. ``round`` (E,): rounds
        of evaluations; ``distance`` (E, K) of the clients of `steps`, None where not evaluated;
        ``newest``: for each step the newest evaluation at or before it; ``since`` (K,): the round
        in which each client was asked first, None if never; ``top``: the largest distance that any
        step shows; ``waiting``: the colour of clients that were not asked so far.
    """
    known = personal.distances(run)
    if known is None:
        return None
    rounds = known.index.to_numpy()
    chosen = np.unique(_newest(rounds, steps))
    chosen = thin(chosen, min(len(chosen), max(2, most // max(1, len(steps["clients"])))))
    newest = _newest(rounds[chosen], steps)
    distance = known.iloc[chosen].reindex(columns=steps["clients"]).to_numpy(float)
    distance = np.where(np.isfinite(distance), distance, np.nan)  # of models that diverge
    first = run.usage.asked.reindex(columns=["client", "first_round"]).set_index("client")
    since = first["first_round"].reindex(steps["clients"]).to_numpy(float)
    asked = since <= np.array(steps["round"])[:, None]
    return {
        "round": rounds[chosen].tolist(),
        "distance": [short(row, 3) for row in distance],
        "newest": newest.tolist(),
        "since": [None if np.isnan(k) else int(k) for k in since],
        "top": float(f"{np.nanmax(np.where(asked, distance[newest], 0.0), initial=0.0):.3g}")
        or 1.0,
        "waiting": LIGHT["waiting"],
    }


def dot_colours(distances: Steps, steps: Steps, at: int) -> dict[str, list[Any]]:
    """Return ``color`` and ``text`` of each client's dot at one step."""
    row, waiting = distances["newest"][at], distances["waiting"]
    then = units.count(distances["round"][row])

    def dot(distance: float | None, since: int | None) -> tuple[Any, str]:
        if since is None or since > steps["round"][at]:
            return waiting, "not selected so far"
        if distance is None:
            return waiting, "its own model was not measured"
        away = units.number(distance)
        return distance, f"its own model {away} from the server's in round {then}"

    dots = [*map(dot, distances["distance"][row], distances["since"])]
    return {"color": [colour for colour, _ in dots], "text": [text for _, text in dots]}


def _newest(rounds: npt.NDArray[Any], steps: Steps) -> npt.NDArray[Any]:
    """Return for each step which evaluation is the newest; the first one where all came later."""
    return np.asarray(np.maximum(0, np.searchsorted(rounds, steps["round"], side="right") - 1))


def walk(results: Results, name: str, seed: int, round: int | None = None) -> go.Figure:
    """Draw the graph in one round: links, the server's position, and its cohort.

    Parameters
    ----------
    results : Results
        A result folder.
    name : str
        The algorithm.
    seed : int
        The seed; its run must have a walk.
    round : int, optional
        A recorded round; the last if None.

    Returns
    -------
    Figure
        Dots are filled by how far the client's own model was from the server's when they were
        evaluated last, where clients have models of their own.

    Raises
    ------
    ValueError
        If the server of the run did not walk, or the round is not recorded.
    """
    run = results.run(name, seed)
    steps = walk_steps(run, ALL)
    distances = model_distances(run, steps, ALL)
    shown = steps["round"]
    if round is not None and round not in shown:
        raise ValueError(f"round {round} is not recorded; give one of {shown[0]} to {shown[-1]}")
    at = len(shown) - 1 if round is None else shown.index(round)
    figure = walk_canvas(run, algorithm_styles(results)[name], steps, distances)
    for trace in figure.data:
        trace.update(step_traces(steps, at, distances)[trace.meta["part"]])
    return figure


def walk_steps(run: RunRecord, most: int = MOST_NUMBERS) -> Steps:
    """Return the data of every recorded round of a walk, thinned to about `most`.

    Returns
    -------
    dict
        For each step ``round``, ``time_s``, ``graph``, and as places among ``clients`` ``here`` (of
        the visited one, a list of one or none), its ``trail`` and the ``asked``, of whom there are
        ``number`` with those who are not drawn. For each graph ``links`` as a flat list of pairs;
        ``x`` and ``y`` for each graph, or once where they stay. The ``sizes`` of a dot and of one
        that is asked.
    """
    recorded = _walk_of(run)
    place = {client: k for k, client in enumerate(recorded.clients.tolist())}
    visited = positions(run)
    cohorts: Any = {}
    if run.asked:
        cohorts = run.events.groupby("round")["client"].unique()
    asked = [[place[i] for i in cohorts.get(k, ()) if i in place] for k in recorded.round.tolist()]
    chosen = _thinned(recorded, [len(ids) + TRAIL for ids in asked], most)
    graphs, graph_of = np.unique(recorded.graph[chosen], return_inverse=True)
    rounds = recorded.round[chosen].tolist()
    x, y = places(recorded, graphs)
    times = run.rounds.set_index("round")["time_s"]
    here = [visited.get(k) for k in rounds]
    return {
        "clients": recorded.clients.tolist(),
        "sizes": _FEW if len(recorded.clients) <= NAMED else _MANY,
        "round": rounds,
        "time_s": [float(times[k]) for k in rounds],
        "graph": graph_of.tolist(),
        "here": [[place[i]] if i in place else [] for i in here],
        "trail": [[place[i] for i in visited.loc[k - TRAIL + 1 : k] if i in place] for k in rounds],
        "asked": [asked[k] for k in chosen],
        "number": [len(cohorts.get(k, ())) for k in rounds],
        "links": [recorded.links_of(g).ravel().tolist() for g in graphs],
        "x": x,
        "y": y,
    }


def step_traces(steps: Steps, at: int, distances: Steps | None = None) -> dict[str, dict[str, Any]]:
    """Return the data of the traces of `walk_canvas` at one step, by their part."""
    graph = steps["graph"][at]
    x, y = (steps[axis][min(graph, len(steps[axis]) - 1)] for axis in ("x", "y"))
    trail, asked = steps["trail"][at], steps["asked"][at]
    here = steps["here"][at]
    small, large = steps["sizes"]
    sizes, rims = [small] * len(x), [1] * len(x)
    for k in asked:
        sizes[k], rims[k] = large, 3
    clients: dict[str, Any] = {"x": x, "y": y}
    clients["marker"] = {"size": sizes, "line": {"width": rims}}
    if distances is not None:
        filled = dot_colours(distances, steps, at)
        clients["marker"]["color"], clients["hovertext"] = filled["color"], filled["text"]
    return {
        "links": pairs(x, y, steps["links"][graph]),
        "around": pairs(x, y, [k for other in asked for k in (here[0], other)] if here else []),
        "path": {"x": [x[k] for k in trail], "y": [y[k] for k in trail]},
        "clients": clients,
        "here": {"x": [x[k] for k in here], "y": [y[k] for k in here]},
    }


def walk_canvas(
    run: RunRecord, style: LineStyle, steps: Steps, distances: Steps | None = None
) -> go.Figure:
    """Return the figure of a walk with empty traces for `step_traces`."""
    recorded = _walk_of(run)
    metres = bool(recorded.places.size)
    figure = canvas(HEIGHT, hovermode="closest")
    for part, line in (
        ("links", {"color": LIGHT["strip"], "width": 1}),
        ("around", {"color": style.light, "width": 2}),
        ("path", {"color": LIGHT["ink"], "width": 2, "dash": "2px,3px"}),
    ):
        marks.lines(figure, part, None, None, line)
    _add_clients(figure, run, style, distances)
    ring = {"symbol": "circle-open", "color": LIGHT["ink"], "line": {"width": 3}}
    size = {"size": 12 + steps["sizes"][1]}
    marks.dots(figure, "here", None, None, ring | size, cliponaxis=None)
    for axis in ("x", "y"):
        low, high = min(map(min, steps[axis])), max(map(max, steps[axis]))
        margin = 0.06 * (high - low) or 1.0
        settings = {"range": [low - margin, high + margin], "showgrid": metres}
        settings["constrain"] = "domain"  # one scale for both, and no empty ground next to them
        settings |= {"title_text": f"{axis} (m)"} if metres else {"showticklabels": False}
        figure.update_layout({f"{axis}axis": settings})
    figure.update_yaxes(scaleanchor="x", scaleratio=1)
    return figure


def _add_clients(
    figure: go.Figure, run: RunRecord, style: LineStyle, distances: Steps | None
) -> None:
    """Add a dot for each client, filled by the distance of its model from the server's."""
    clients = _walk_of(run).clients
    counted = positions(run).value_counts().reindex(clients, fill_value=0)
    filled: dict[str, Any] = {"color": LIGHT["background"]}
    hover = "client %{customdata[0]}, visited %{customdata[1]} times"
    if distances is not None:
        hover += "<br>%{hovertext}"
        bar = colorbar("distance of a client's own model")
        bar |= {"orientation": "h", "y": -0.16, "yanchor": "top", "len": 0.6}
        bar["title"]["side"] = "top"
        filled = {"colorscale": fade(style), "cmin": 0, "cmax": distances["top"], "colorbar": bar}
        figure.update_layout(margin_b=124, height=HEIGHT + 72)
    few = len(clients) <= NAMED
    marks.dots(
        figure, "clients", None, None, filled | {"line": {"color": style.light}, "opacity": 1},
        hover, mode="markers+text" if few else "markers",
        text=[str(client) for client in run.called(clients)] if few else None,
        textposition="top right", textfont={"color": LIGHT["muted"], "size": 11},
        customdata=list(zip(run.called(clients), counted.tolist(), strict=True)),
    )  # fmt: skip


def visits(results: Results, name: str, seed: int) -> go.Figure:
    """Draw visit counts of clients against the walk's stationary distribution.

    Parameters
    ----------
    results : Results
        A result folder.
    name : str
        The algorithm.
    seed : int
        The seed; its run must have a walk.

    Returns
    -------
    Figure
        ``layout.meta["note"]`` has the number of omitted clients and the distance between both.

    Raises
    ------
    ValueError
        If the server of the run did not walk.
    """
    run = results.run(name, seed)
    counts = visit_counts(run)
    shown = counts.iloc[:_BARS]
    at = np.arange(len(shown))
    figure = canvas(300, hovermode="closest", bargap=0.25)
    known = bool(shown["law"].notna().any())
    long = ", in the long run %{customdata[2]:.3~g} %" if known else ""
    few, columns = len(shown) <= NAMED, (shown["visits"], 100 * shown["law"])
    hover = f"client %{{customdata[0]}}<br>visited %{{customdata[1]}} times, %{{y:.3~g}} %{long}"
    rows = zip(run.called(shown.index), *columns, strict=True)
    colour = algorithm_styles(results)[name]
    y = 100 * shown["share"]
    marks.bars(figure, "visits", at, y, colour.light, hover, customdata=list(rows))
    if known:
        steps = {"color": LIGHT["ink"], "width": 1.5, "dash": "3px,3px", "shape": "hvh"}
        dot = {"color": LIGHT["ink"], "size": 5 if few else 1}
        marks.lines(figure, "law", at, columns[1], steps, mode="lines+markers", marker=dot)
    names = run.called(shown.index)
    clients_across(figure, names, "client, the likeliest in the long run first")
    figure.update_yaxes(title_text="share of the visits (%)", rangemode="tozero")
    cut = len(shown) < len(counts)
    notes = [f"Drawn: {len(shown):,} of {len(counts):,} clients."] if cut else []
    if known:
        notes.append(f"Distance to the long-run law (total variation): {misplaced(run):.2f}.")
    return figure.update_layout(meta={"note": " ".join(notes)})


def eigenvalues(results: Results, name: str, seed: int) -> go.Figure:
    """Draw the second eigenvalue of the walk on the graph of every recorded round.

    Parameters
    ----------
    results : Results
        A result folder.
    name : str
        The algorithm.
    seed : int
        The seed; its run must have a walk.

    Returns
    -------
    Figure
        One line of steps over the rounds.

    Raises
    ------
    ValueError
        If the server of the run did not walk.
    """
    run = results.run(name, seed)
    rounds, figure = _walk_of(run).round, canvas(240, hovermode="x unified")
    line = {"color": algorithm_styles(results)[name].light, "width": 2, "shape": "hv"}
    marks.lines(figure, "lambda_2", rounds, _lambdas(run), line, "%{y:.4f}")
    figure.update_xaxes(title_text="round", showgrid=False)
    figure.update_yaxes(title_text="second eigenvalue")
    figure.update_layout(xaxis_unifiedhovertitle_text="round %{x}")
    return figure


def _walk_of(run: RunRecord) -> Walked:
    """Return the walk of a run's server; raise an error if it did not walk."""
    if run.walk is None:
        raise ValueError(f"the server of {run.name}, seed {run.seed}, did not walk")
    return run.walk


def _lambdas(run: RunRecord) -> Floats:
    """Return the second eigenvalue of the walk in each recorded round."""
    recorded = _walk_of(run)
    return recorded.lambda_2[recorded.graph]


def _thinned(recorded: Walked, weights: Sequence[int], most: int) -> Ints:
    """Return evenly spaced steps, the last included, that take about so many numbers."""
    count, each = len(weights), np.asarray(weights)
    links = 2 * np.diff(recorded.starts) + (
        2 * len(recorded.clients) if recorded.places.size else 0
    )
    shown = count
    while True:
        chosen = thin(np.arange(count), shown)
        total = each[chosen].sum() + links[np.unique(recorded.graph[chosen])].sum()
        if total <= most or shown <= 2:
            return chosen
        shown = max(2, min(shown - 1, int(shown * most / total)))


def _path(steps: Mapping[str, Any], shared: Mapping[str, Unique]) -> int:
    """Return the place of a path; its steps name links and spots by place too."""
    links = [shared["links"].place(ends) for ends in steps["links"]]
    spots = [shared["spots"].place(list(xy)) for xy in zip(steps["x"], steps["y"], strict=True)]
    path = {name: value for name, value in steps.items() if name not in ("x", "y", "graph")}
    path["links"] = [links[g] for g in steps["graph"]]
    path["spots"] = [spots[min(g, len(spots) - 1)] for g in steps["graph"]]
    return shared["paths"].place(path)


def positions(run: RunRecord) -> pd.Series:
    """Return the server's position, indexed by round from 1."""
    rows = run.rounds[(run.rounds["round"] > 0) & (run.rounds["position"] >= 0)]
    return rows.set_index("round")["position"].astype(int)


def disconnected(run: RunRecord) -> tuple[int, int]:
    """Return the numbers of rounds with a disconnected graph and with a repaired one.

    Both are 0 if that was not recorded.
    """
    rows = run.rounds
    if not {"connected", "repaired"} <= set(rows):
        return 0, 0
    return int((rows["connected"] == 0).sum()), int((rows["repaired"] == 1).sum())


def visit_counts(run: RunRecord) -> pd.DataFrame:
    """Return visits and stationary probability of each client, the most likely first.

    Returns
    -------
    DataFrame
        Indexed by client, with ``visits`` (count), ``share`` and ``law`` (0 to 1; NaN if
        unknown). The law is the mean over the graphs of the recorded rounds; if unknown, only
        visited clients have a row.
    """
    recorded = _walk_of(run)
    counted = positions(run).value_counts()
    law = recorded.law[recorded.graph]
    if law.shape[1]:
        frame = pd.DataFrame({"law": law.mean(axis=0)})
        frame["visits"] = counted.reindex(frame.index, fill_value=0)
    else:
        frame = pd.DataFrame({"visits": counted, "law": np.nan})
    frame["share"] = frame["visits"] / max(1, int(counted.sum()))
    frame.index.name = "client"
    ordered = frame.assign(close=-frame["law"].round(9), often=-frame["visits"])
    return ordered.sort_values(["close", "often"], kind="stable")[["visits", "share", "law"]]


def misplaced(run: RunRecord) -> float:
    """Return the total variation distance between visits and stationary law, 0 to 1.

    NaN if the law is unknown.
    """
    frame = visit_counts(run)
    return float((frame["share"] - frame["law"]).abs().sum(skipna=False) / 2)


def note(run: RunRecord, steps: int) -> str:
    """Return the omitted parts of a walk's figure."""
    rounds, total = len(positions(run)), int(run.info.get("clients") or 0)
    parts = [f"{steps:,} evenly spaced of {rounds:,} rounds"] if steps < rounds else []
    if (drawn := len(_walk_of(run).clients)) < total:
        parts.append(f"the {drawn:,} most visited of {total:,} clients")
    return f"Drawn: {' and '.join(parts)}." if parts else ""


def title(run: RunRecord) -> str:
    """Return the heading of a walk, with the number of rounds with a disconnected graph if any."""
    (apart, repaired), rounds = disconnected(run), len(positions(run))
    if not apart:
        return "Walk of the server"
    added = {0: "it stayed so", apart: "links were added to connect it"}
    text = added.get(repaired, f"links were added in {repaired:,} of them")
    return (
        f"Walk of the server; the graph was not connected in {apart:,} of {rounds:,} rounds, {text}"
    )


def eigenvalues_note(run: RunRecord) -> str:
    """Return the second eigenvalue of a walk, and the moves until it forgets its start."""
    known = _lambdas(run)
    low, high, middle = (float(v) for v in (known.min(), known.max(), np.median(known)))
    if math.isnan(middle):
        return "The second eigenvalue is unknown: the graph is too large."
    value = units.number(middle)
    if low != high:
        value = f"between {units.number(low)} and {units.number(high)}, mostly near {value}"
    return f"Second eigenvalue {value}. {_memory(middle)}"


def _memory(eigenvalue: float) -> str:
    """Return the number of moves until a tenth of the start's influence remains."""
    if eigenvalue >= 1 - 1e-12:
        return "The walk never forgets its start."
    moves = math.ceil(math.log(0.1) / math.log(eigenvalue)) if eigenvalue > 0 else 1
    return f"After {moves:,} move{'s' * (moves != 1)} a tenth of its start's influence remains."


class WalkPanel(Panel):
    """A player of the chosen walk, its visits and its second eigenvalues.

    A run whose server did not walk is no choice here.
    """

    name: ClassVar[str] = "walk"
    section = Section.WALK
    rank = 0
    draws = (walk, visits, eigenvalues)
    trail = TRAIL

    @cached_property
    def runs(self) -> list[RunRecord]:
        """The shown runs with walking servers."""
        return [run for run in self.source.runs if run.walk is not None]

    @property
    def applies(self) -> bool:
        """Whether any server walked."""
        return bool(self.runs)

    @cached_property
    def payload(self) -> dict[str, Any]:
        """The ``walks``, and their common part ``shared``, once.

        The ``path`` of a walk is a place among ``shared["paths"]``; each step of a path has as
        places which of the ``links`` (a flat list of pairs) there are and at which of the ``spots``
        (x and y) clients are.
        """
        shared = {"paths": Unique(), "links": Unique(), "spots": Unique()}
        walks = [self._walk(run, shared) for run in self.runs]
        return {"walks": walks, "shared": {name: unique.values for name, unique in shared.items()}}

    def _walk(self, run: RunRecord, shared: Mapping[str, Unique]) -> dict[str, Any]:
        steps = walk_steps(run, MOST_STEPS // len(self.runs))
        distances = model_distances(run, steps, MOST_DISTANCES // len(self.runs))
        bars = visits(self.results, run.name, run.seed)
        second = eigenvalues(self.results, run.name, run.seed)
        notes = {"walk": note(run, len(steps["round"])), "visits": bars.layout.meta["note"]}
        canvas = walk_canvas(run, self.source.styles[run.name], steps, distances)
        changes = _walk_of(run).changes
        return {
            "name": run.name,
            "seed": run.seed,
            "place": self.source.colour_place(run.name),
            "title": keep_units(title(run)),
            "notes": notes | {"eigenvalues": eigenvalues_note(run)},
            "path": _path(steps, shared),
            "distances": distances,
            "walk": figure_json(canvas),
            "visits": figure_json(bars),
            "eigenvalues": figure_json(second) if changes else None,
        }

    @property
    def choices(self) -> list[tuple[str, str]]:
        """The walks to choose from: their places with the names of their runs."""
        return [(str(k), f"{run.name}, seed {run.seed}") for k, run in enumerate(self.runs)]
