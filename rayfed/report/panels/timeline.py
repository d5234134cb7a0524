"""Timelines of client activity over simulated time, and the history of each client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.core.arrays import Floats
from rayfed.core.summary.grid import Grid
from rayfed.report.figures import marks
from rayfed.report.figures.clients import MEANINGS, PATTERNS, WORDS, clients_in_rows
from rayfed.report.figures.palette import LIGHT
from rayfed.report.figures.style import algorithm_styles, canvas, colorbar, scale, veil
from rayfed.report.panels.base import RunPanel, Section, short
from rayfed.report.read import breakdown
from rayfed.report.read.curves import X_AXES
from rayfed.report.read.results import Results, RunRecord
from rayfed.report.read.run import FIRST_EVENTS

MARGINS = 12 + 52  # pixels of a canvas above and below its plot
STRIP = 30  # pixels of the strip with its gap
INTERVAL = ["client", "start_s", "end_s"]
HEIGHT = 420  # of a density
MOST_ROWS = 60  # clients beyond this are drawn as a density
MOST_BARS = 1500
FIRST_ROUNDS = 12  # rounds that the first view shows
_TASKS = {"used": WORDS["computing"], "late": "late", "dropped": "dropped"}
_WORDS = {state: WORDS[state] for state in ("finished", "idle")} | _TASKS
_FILLS = LIGHT | {"finished": LIGHT["strip"], "idle": LIGHT["waiting"]}
_TIMES = ["start_s", "end_s", "compute_s"]
EVERY_BAR = 15_000  # bars of all timelines together
MOST_CLIENTS = 20_000  # clients of all runs together with their facts


@dataclass(frozen=True)
class RoundClock:
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


def round_clock(run: RunRecord, last: int | None = None) -> RoundClock:
    """Return the clock of a run up to a round."""
    rounds = run.rounds[run.rounds["round"] > 0]
    ends = rounds["time_s"].to_numpy(float)
    first = run.rounds["time_s"].to_numpy(float)[:1] if len(rounds) < len(run.rounds) else [0.0]
    frame = pd.DataFrame(
        {"round": rounds["round"].to_numpy(), "start": np.r_[first, ends[:-1]], "end": ends}
    ).join(rounds[["participants", "late", "dropped"]].reset_index(drop=True))
    frame = frame if last is None else frame[frame["round"] <= last]
    chosen = scale(X_AXES["time_s"], float(frame["end"].max()) if len(frame) else 1.0)
    return RoundClock(frame, **chosen)


def canvas_with_rounds(height: int, clock: RoundClock) -> go.Figure:
    """Return a canvas with the rounds as a strip above the plot."""
    figure = canvas(height, barmode="overlay", bargap=0, hovermode="closest", dragmode="zoom")
    inside = height - MARGINS
    strip = {
        "domain": [1 - 18 / inside, 1], "range": [0, 1], "fixedrange": True, "anchor": "free",
        "position": 0, "showgrid": False, "zeroline": False, "showticklabels": True, "ticks": "",
        "tickvals": [0.5], "ticktext": ["rounds"], "ticklabelstandoff": 6,
        "tickfont": {"color": LIGHT["muted"]},
    }  # fmt: skip
    figure.update_layout(yaxis={"domain": [0, 1 - STRIP / inside]}, yaxis2=strip)
    _strip(figure, clock)
    # Round numbers that would have to shrink to fit are left out.
    figure.update_layout(uniformtext={"mode": "hide", "minsize": 8})
    return figure.update_xaxes(title_text=clock.title, rangemode="tozero")


def _strip(figure: go.Figure, clock: RoundClock, most: int = 400) -> None:
    """Add one block a round, in two greys by turns; many rounds are taken together."""
    rounds = clock.rounds
    step = max(1, -(-len(rounds) // most))
    groups = rounds.groupby(np.arange(len(rounds)) // step)
    blocks = groups.agg({"round": "first", "start": "first", "end": "last"})
    counts = groups[["participants", "late", "dropped"]].sum()
    length = blocks["end"] - blocks["start"]
    marks.bars(
        figure, "rounds", (length / clock.worth).to_numpy(float), np.full(len(blocks), 0.5),
        [LIGHT["strip"] if i % 2 else LIGHT["waiting"] for i in range(len(blocks))],
        "round %{customdata[0]:.0f}: %{customdata[1]:.3~g} s, %{customdata[2]:.0f} tasks used, "
        "%{customdata[3]:.0f} late, %{customdata[4]:.0f} dropped",
        base=(blocks["start"] / clock.worth).to_numpy(float), orientation="h", width=1.0,
        yaxis="y2", customdata=np.column_stack([blocks["round"], length, counts.to_numpy(float)]),
        text=[str(number) for number in blocks["round"]] if step == 1 else None,
        textfont={"color": LIGHT["ink"], "size": 10}, **marks.INSIDE,
    )  # fmt: skip


def waiting(
    run: RunRecord, events: pd.DataFrame, clients: pd.Index, rounds: pd.DataFrame
) -> pd.DataFrame:
    """Return the intervals in which clients were available without computing.

    Parameters
    ----------
    run : RunRecord
        Its absences; if these were not recorded, only clients that have answered are known to be
        available.
    events : DataFrame
        Its events, or the first of them.
    clients : Index
        The drawn clients.
    rounds : DataFrame
        ``round`` and ``end`` (seconds) of the drawn rounds.

    Returns
    -------
    DataFrame
        ``client, start_s, end_s, status``, by client and time: "finished" if the client has
        answered and waits for the end of its round, or for neighbours, else "idle".
    """
    free = pd.concat([_until_the_end(events, rounds), _for_neighbours(events)])
    layers = {"busy": _busy(events)[INTERVAL], "finished": free}
    if run.away is not None:
        end = float(rounds["end"].max()) if len(rounds) else 0.0
        idle = pd.DataFrame({"client": clients, "start_s": 0.0, "end_s": end})
        layers = {"away": run.away[run.away["client"].isin(clients)], **layers, "idle": idle}
    states = uppermost(layers)
    return states[states["status"].isin(["finished", "idle"])]


def uppermost(layers: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the state of each client over time, where intervals hide those of later layers.

    Parameters
    ----------
    layers : mapping of str to DataFrame
        By state: ``client, start_s, end_s`` in any order; they may overlap.

    Returns
    -------
    DataFrame
        ``client, start_s, end_s, status``, by client and time.
    """
    ends = [
        pd.DataFrame({"client": held["client"], "start_s": held[at], "layer": name, "open": step})
        for name, held in layers.items()
        for at, step in (("start_s", 1), ("end_s", -1))
    ]
    steps = pd.concat(ends).pivot_table("open", ["client", "start_s"], "layer", "sum", fill_value=0)
    opened = steps.reindex(columns=list(layers), fill_value=0).groupby("client").cumsum() > 0
    status = opened.idxmax(axis=1).where(opened.any(axis=1), "")
    changes = status[status != status.groupby("client").shift()].rename("status").reset_index()
    changes["end_s"] = changes.groupby("client")["start_s"].shift(-1)
    return changes[changes["status"] != ""]


def _busy(events: pd.DataFrame) -> pd.DataFrame:
    """Return tasks up to when their nodes begin to wait for neighbours, in gossip in steps."""
    return events.assign(end_s=events["end_s"] - _waits(events))


def _for_neighbours(events: pd.DataFrame) -> pd.DataFrame:
    """Return the time that nodes wait for neighbours."""
    held = events[_waits(events) > 0]
    return held.assign(start_s=held["end_s"] - _waits(held))[INTERVAL]


def _waits(events: pd.DataFrame) -> pd.Series[float]:
    return events.get("wait_s", pd.Series(0.0, events.index))


def _until_the_end(events: pd.DataFrame, rounds: pd.DataFrame) -> pd.DataFrame:
    """Return the time from the last reply of each client in a round to the end of the round."""
    used = events[events["status"] == "used"]
    last = used.sort_values("end_s").drop_duplicates(["round", "client"], keep="last")
    until = rounds.set_index("round")["end"].reindex(last["round"]).to_numpy()
    free = last.assign(start_s=last["end_s"], end_s=until)[INTERVAL]
    return free[free["end_s"] > free["start_s"]]


def density(run: RunRecord, clients: pd.DataFrame, colour: str) -> go.Figure:
    """Draw shares of clients in bands of equal speed rank and steps of time.

    Grey is the share of available clients. On top of it, the strength of each colour is the share
    of clients in a state: the algorithm's colour computing, orange late, red dropped.

    Parameters
    ----------
    run : RunRecord
        Its events and, where recorded, when clients were away.
    clients : DataFrame
        Its `RunRecord.clients_by_speed`.
    colour : str
        The algorithm's colour.
    """
    clock = round_clock(run)
    figure = canvas_with_rounds(HEIGHT, clock)
    sums, edges = run.usage.cells("time_s", clock.end)
    sizes = run.usage.band_sizes
    bands = len(sizes)
    away = away_share(run, edges)
    possible = np.maximum(sizes, 1)[:, None] * np.diff(edges)
    shares = {s: (100 * sums[s] / possible).round(4) for s in ("late", "dropped", "used")}
    top = max(float(share.max()) for share in shares.values()) or 1.0
    layers = [(part, z, top) for part, z in shares.items()]
    if run.away is not None:
        layers.insert(0, ("available", 100 - away, 100.0))
    hues = LIGHT | {"available": LIGHT["waiting"], "used": colour}
    for part, z, most in layers:
        marks.mark(
            figure, "heatmap", part, z=z, x=(edges[:-1] + edges[1:]) / 2 / clock.worth,
            y=(np.arange(bands) + 0.5) * 100 / bands, zmin=0, zmax=most,
            colorscale=veil(hues[part]), showscale=False,
        )  # fmt: skip
    # The scale shows the algorithm's own colour, which is on top and takes the mouse.
    figure.data[-1].update(
        showscale=True, colorbar=colorbar("computing (%)"), name="", hoverinfo=None,
        customdata=np.dstack([shares["late"], shares["dropped"], away.round(3)]),
        hovertemplate=_density_hover(run, clock.unit),
    )  # fmt: skip
    title, end = "clients, fastest at the top (%)", clock.end / clock.worth
    figure.layout.yaxis.update(title_text=title, range=[100, 0], showgrid=False)
    note = f"{len(clients):,} clients are drawn as a density, in {bands} bands of equal speed rank."
    figure.update_layout(meta={"note": note, "whole": end})
    return figure.update_xaxes(range=[0, end])


def _density_hover(run: RunRecord, unit: str) -> str:
    away = "<br>%{customdata[2]:.3~g} % are away" if run.away is not None else ""
    return (
        f"the clients around the %{{y:.0f}} % fastest at %{{x:.4~g}} {unit}<br>"
        "%{z:.3~g} % compute, %{customdata[0]:.3~g} % are late, %{customdata[1]:.3~g} % drop out"
        f"{away}"
    )


def away_share(run: RunRecord, edges: Floats) -> Floats:
    """Return the share of clients that are away in each cell, (bands, times), percent.

    Parameters
    ----------
    run : RunRecord
        A run.
    edges : (times + 1,) array
        Seconds.
    """
    usage, away = run.usage, run.away
    band = usage.bands
    if away is None or not len(away):
        return np.zeros((len(usage.band_sizes), len(edges) - 1))
    # The clients with the smallest ids are recorded, up to a limit.
    watched = band[band.index <= away["client"].max()].to_numpy()
    grid = Grid(float(edges[0]), float(edges[1] - edges[0]))
    start, stop = (away[key].to_numpy(float) for key in INTERVAL[1:])
    used = np.zeros(len(away), np.int64)  # the status that they are counted under
    grid.spread(band.reindex(away["client"]).to_numpy(), start, stop, used)
    sums = grid.cells[: len(usage.band_sizes), : len(edges) - 1, 0]
    sizes = np.maximum(np.bincount(watched, minlength=len(usage.band_sizes)), 1)
    return 100 * sums / (sizes[:, None] * np.diff(edges))


def timeline(results: Results, name: str, seed: int, most: int = MOST_BARS) -> go.Figure:
    """Draw client activity of one run over simulated time, the fastest at the top.

    A bar reaches from the moment the server asks to the arrival of the reply, network included; in
    gossip in steps it is the node's own step. Dark grey is a client that waits for the round to
    end, or for neighbours, light grey one that is available and idle, blank one that is away.
    Without recorded absences, blank is also an idle client.

    Parameters
    ----------
    results : Results
        A result folder.
    name : str
        The algorithm.
    seed : int
        The seed.
    most : int
        About how many bars are drawn at most. Later rounds are left out, with a note.

    Returns
    -------
    Figure
        ``layout.meta`` holds ``note`` (the omitted rounds, empty if there are none) and ``blank``
        (the meaning of blank).

    Raises
    ------
    NothingToDraw
        If the run has no record of its clients' activity.
    """
    run = results.run(name, seed)
    if not run.asked:
        raise marks.NothingToDraw.of(run, "has no record of what its clients did")
    clients = run.clients_by_speed
    blank = "away" if run.away is not None else "idle, or away (not recorded for this run)"
    many = len(clients) > MOST_ROWS
    colour = algorithm_styles(results)[name].light
    figure = density(run, clients, colour) if many else _bars(run, clients, colour, most)
    return figure.update_layout(meta=figure.layout.meta | {"blank": blank})


def _bars(run: RunRecord, clients: pd.DataFrame, colour: str, most: int) -> go.Figure:
    events = _first_events(run)
    asked = events.groupby("round").size().reindex(round_clock(run).rounds["round"], fill_value=0)
    fitting = asked.index[2 * asked.cumsum() <= most]  # a bar for a task, one for the time after it
    last = int(max(fitting, default=events["round"].min()))
    clock = round_clock(run, last)
    events = events[events["round"] <= last]
    figure = canvas_with_rounds(max(220, 20 * len(clients) + MARGINS + STRIP), clock)
    bars = pd.concat([_busy(events), waiting(run, events, clients.index, clock.rounds)])
    bars[_TIMES] = (bars[_TIMES] / clock.worth).round(6)
    for part, word in _WORDS.items():
        rows = bars[bars["status"] == part]
        about = rows[["client", "round", *_TIMES][: 5 if part in _TASKS else 4]].to_numpy(float)
        if run.client_names:
            about = about.astype(object)
            about[:, 0] = run.called(rows["client"])
        marks.bars(
            figure, part, (rows["end_s"] - rows["start_s"]).round(6).to_numpy(),
            clients.index.get_indexer(pd.Index(rows["client"])), _FILLS.get(part, colour),
            _hover(part, clock.unit), PATTERNS.get(part, ""), base=rows["start_s"].to_numpy(),
            orientation="h", customdata=about, name=word, width=0.72,
        )  # fmt: skip
    clients_in_rows(figure, run.called(clients.index))
    total, first = int(run.rounds["round"].max()), clock.rounds.iloc[:FIRST_ROUNDS]
    view = float(first["end"].max()) if len(first) else 1.0
    note = f"Drawn: rounds 1 to {last} of {total}." if last < total else ""
    frame = {"color": LIGHT["ink"], "width": 1.5}  # of the client that a reader asks for
    meta = {"note": note, "first": len(first), "last": last, "frame": frame}
    meta["whole"] = clock.end / clock.worth
    return figure.update_xaxes(range=[0, view / clock.worth]).update_layout(meta=meta)


def _hover(part: str, unit: str) -> str:
    task = part in _TASKS
    asked = ", round %{customdata[1]:.0f}" if task else ""
    of_it = f"<br>of it computing %{{customdata[4]:.3~g}} {unit}" if task else ""
    when = f"%{{customdata[2]:.4~g}} to %{{customdata[3]:.4~g}} {unit}"
    return f"client %{{customdata[0]}}{asked}<br>{_WORDS[part]}: {when}{of_it}"


def _first_events(run: RunRecord) -> pd.DataFrame:
    """Return the first events of a run, with ``status`` as text."""
    events = run.first_events
    return events.assign(status=events["status"].astype(str)) if len(events) else events


def with_labels(run: RunRecord) -> pd.DataFrame:
    """Return the clients, fastest first, with the number of their commonest label and its share."""
    clients, counts = run.clients_by_speed, breakdown.labels(run)
    if not len(counts):
        return clients
    rows = counts.to_numpy(float)
    found = pd.DataFrame({"label": rows.argmax(axis=1)}, index=counts.index)
    found["label_share"] = rows.max(axis=1) / rows.sum(axis=1).clip(min=1)
    return clients.join(found)


def events_of(run: RunRecord, client: int) -> dict[str, Any]:
    """Return the full activity of a client in a run.

    It is about its first `FIRST_EVENTS` events, which is all of nearly every client.
    """
    found = run.events_of(client)
    return _history(found, len(found), FIRST_EVENTS)


def _history(events: pd.DataFrame, of: int, most: int) -> dict[str, Any]:
    """Return the first of so many events as columns, and the last round if there are more."""
    first = events.iloc[:most]
    until = None if len(first) == of else int(first["round"].iloc[-1])
    columns = ("round", "client", "status")
    return {name: first[name].tolist() if len(first) else [] for name in columns} | {"until": until}


def _clients(clients: pd.DataFrame, most: int) -> dict[str, list[Any]]:
    step = np.unique(np.linspace(0, len(clients) - 1, min(most, len(clients))).astype(int))
    shown = clients.iloc[step]
    columns = {str(name): short(shown[name]) for name in shown.columns}
    return {"client": shown.index.tolist()} | columns


class TimelinePanel(RunPanel):
    """The timeline of the chosen run; here the reader chooses the run and asks for a client."""

    name: ClassVar[str] = "timeline"
    section = Section.CLIENTS
    rank = 0
    draws = (timeline,)
    heading = "Timeline of the clients"
    clickable = True

    def figure(self, run: RunRecord) -> go.Figure:
        """Return `figures.timeline` with this run's share of the bars."""
        bars = int(np.clip(EVERY_BAR // len(self.source.runs), 200, 1500))
        return timeline(self.results, run.name, run.seed, bars)

    @cached_property
    def payload(self) -> dict[str, Any]:
        """The figures, and the clients of each run with their events, unless a server has these."""
        runs = self.source.runs
        most = FIRST_EVENTS // max(1, len(runs))
        live, share = self.source.asked is not None, MOST_CLIENTS // max(1, len(runs))
        histories = [
            {
                "events": None if live else _history(_first_events(run), run.asked, most),
                "clients": _clients(with_labels(run), share),
                "names": run.client_names,
                "labels": list(breakdown.labels(run).columns),
            }
            for run in runs
        ]
        return super().payload | {"histories": histories}

    @property
    def many(self) -> bool:
        """Whether the clients are too many for a row each."""
        return any(len(run.clients_by_speed) > MOST_ROWS for run in self.source.runs)

    @property
    def statuses(self) -> list[tuple[str, str, str]]:
        """The key of the bars: class and style of each box, and its meaning."""
        first = self.source.runs[self.source.first_run].name
        colour = f"background:var(--a{self.source.colour_place(first)})"
        waiting = [(state, "", MEANINGS[state]) for state in ("finished", "idle")]
        if self.many:
            waiting = [("idle", "", MEANINGS["idle"])]
        return [
            ("computing", colour, "computing"),
            *waiting,
            ("late", "", "late"),
            ("dropped", "", "dropped"),
            ("away", "", self.shown["figure"]["layout"]["meta"]["blank"]),
        ]
