"""What the clients of a run did over simulated time, and the history of each."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.report.figures.clients import WORDS
from rayfed.report.figures.density import density
from rayfed.report.figures.intervals import waiting_intervals
from rayfed.report.figures.palette import LIGHT
from rayfed.report.figures.rounds_strip import (
    MARGINS,
    STRIP,
    Clock,
    canvas_with_rounds,
    round_clock,
)
from rayfed.report.figures.style import algorithm_styles, canvas
from rayfed.report.panels.base import RunPanel, Section
from rayfed.report.panels.phrases import quoted
from rayfed.report.read import parts, units
from rayfed.report.read.results import Results, Run
from rayfed.report.read.units import short_number

MOST_ROWS = 60  # clients beyond this are drawn as a density
MOST_BARS = 1500
FIRST_ROUNDS = 12  # rounds that the first view shows
_PARTS = ("finished", "idle", "used", "late", "dropped")
_COLOURS = {
    "finished": LIGHT["strip"],
    "idle": LIGHT["waiting"],
    "late": LIGHT["late"],
    "dropped": LIGHT["dropped"],
}
_WAITING = {"finished": WORDS["finished"], "idle": f"there, {WORDS['idle']}"}
_WORDS = {"used": "computing", "late": "late", "dropped": "dropped", **_WAITING}
_PATTERN = {"late": "/", "dropped": "x"}


def timeline(results: Results, name: str, seed: int, most: int = MOST_BARS) -> go.Figure:
    """Draw what the clients of one run did over simulated time, the fastest at the top.

    A bar reaches from the moment the server asks to the arrival of the reply, network included.
    Dark grey is a client that has answered and waits for the round to end, light grey one that is
    there and not asked, blank one that is away. Where it was not recorded who was away, blank is
    also a client that is not asked.

    Parameters
    ----------
    results : Results
        A result folder.
    name : str
        The algorithm.
    seed : int
        The seed.
    most : int
        About how many bars are drawn at most; later rounds are left out, which the note says.

    Returns
    -------
    Figure
            ``layout.meta`` holds ``note`` (what was left out, empty if nothing was) and ``blank``
        (what the blank means).
    """
    run = results.run(name, seed)
    styles = algorithm_styles(results)[name]
    clients = run.clients_by_speed
    blank = "away" if run.away is not None else "not asked, or away (not recorded for this run)"
    if not len(run.events):
        figure = canvas(200, meta={"note": "No events are recorded for this run."})
    elif len(clients) > MOST_ROWS:
        figure = density(run, clients, styles.light)
    else:
        figure = _bars(run, clients, styles.light, most)
    figure.layout.meta = figure.layout.meta | {"blank": blank}
    return figure


def _bars(run: Run, clients: pd.DataFrame, colour: str, most: int) -> go.Figure:
    events = run.events.assign(status=run.events["status"].astype(str))
    last = _last_round(run, events, clients.index, most)
    clock = round_clock(run, last)
    events = events[events["round"] <= last]
    figure = canvas_with_rounds(max(220, 20 * len(clients) + MARGINS + STRIP), clock)
    row = pd.Series(np.arange(len(clients)), index=clients.index)
    waiting = waiting_intervals(run, events, clients.index, clock.rounds)
    asks = pd.concat([events, waiting], ignore_index=True)
    colours = {"used": colour} | _COLOURS
    for part in _PARTS:
        chosen = asks[asks["status"] == part]
        _add_bars(figure, part, chosen, row, clock, colours[part], run)
    _set_rows(figure, run.called(clients.index))
    shown = clock.rounds["round"].iloc[: min(FIRST_ROUNDS, len(clock.rounds))]
    view = clock.rounds["end"].iloc[len(shown) - 1] if len(shown) else 1.0
    total = int(run.events["round"].max())
    note = f"Drawn: rounds 1 to {last} of {total}." if last < total else ""
    figure.update_xaxes(range=[0, float(view) / clock.worth])
    whole = clock.end / clock.worth
    frame = {
        "color": LIGHT["ink"],
        "width": 1.5,
    }  # of the client that a reader of the page asks for
    meta = {"note": note, "whole": whole, "first": len(shown), "last": last, "frame": frame}
    figure.update_layout(meta=meta)
    return figure


def _set_rows(figure: go.Figure, clients: list[int | str]) -> None:
    few = len(clients) <= 30
    figure.layout.yaxis.update(
        title_text="client, fastest at the top",
        range=[len(clients) - 0.4, -0.6],
        tickvals=list(range(len(clients))) if few else None,
        ticktext=[str(client) for client in clients] if few else None,
        showticklabels=few,
        showgrid=False,
    )


def _last_round(run: Run, events: pd.DataFrame, clients: pd.Index, most: int) -> int:
    """Return the last of as many whole rounds from the start as fit into so many bars."""
    rounds = round_clock(run).rounds
    waiting = waiting_intervals(run, events, clients, rounds)
    starts = np.searchsorted(rounds["end"].to_numpy(float), waiting["start_s"], side="right")
    bars = np.bincount(np.minimum(starts, len(rounds) - 1), minlength=len(rounds))
    asked = events.groupby("round").size().reindex(rounds["round"], fill_value=0)
    fitting = rounds["round"].to_numpy()[np.cumsum(bars + asked.to_numpy()) <= most]
    return int(fitting.max() if len(fitting) else events["round"].min())


def _add_bars(
    figure: go.Figure,
    part: str,
    events: pd.DataFrame,
    row: pd.Series,
    clock: Clock,
    colour: str,
    run: Run,
) -> None:
    start, end = events["start_s"].to_numpy(float), events["end_s"].to_numpy(float)
    times = np.column_stack([start, end, events["compute_s"].to_numpy(float)]) / clock.worth
    customdata = np.column_stack([events[["client", "round"]].to_numpy(float), times.round(6)])
    figure.add_bar(
        orientation="h",
        name=_WORDS[part],
        x=np.round((end - start) / clock.worth, 6),
        base=np.round(start / clock.worth, 6),
        y=row.reindex(events["client"]).to_numpy(float),
        customdata=_named(customdata[:, [0, 2, 3]] if part in _WAITING else customdata, run),
        width=0.72,
        marker={
            "color": colour,
            "line": {"width": 0},
            "pattern": {
                "shape": _PATTERN.get(part, ""),
                "fillmode": "overlay",
                "fgcolor": LIGHT["background"],
                "size": 6,
                "solidity": 0.25,
            },
        },
        hovertemplate=_hover(part, clock.unit),
        meta={"part": part},
    )


def _named(customdata: np.ndarray, run: Run) -> np.ndarray:
    """Return what hovers show, with the names of clients in the first column if they have any."""
    if not run.client_names:
        return customdata
    shown = customdata.astype(object)
    shown[:, 0] = run.called(customdata[:, 0])
    return shown


def _hover(part: str, unit: str) -> str:
    if part in _WAITING:
        return (
            f"client %{{customdata[0]}}<br>{_WORDS[part]}: %{{customdata[1]:.4~g}} to "
            f"%{{customdata[2]:.4~g}} {unit}<extra></extra>"
        )
    return (
        "client %{customdata[0]}, round %{customdata[1]:.0f}<br>"
        f"{_WORDS[part]}: %{{customdata[2]:.4~g}} to %{{customdata[3]:.4~g}} {unit}<br>"
        f"of it computing %{{customdata[4]:.3~g}} {unit}<extra></extra>"
    )


EVERY_BAR = 15_000  # bars of all timelines together
MOST_EVENTS = 120_000  # events of all runs together from which a client's history is told
MOST_CLIENTS = 20_000  # clients of all runs together with their facts
_NOTABLE = 0.005  # least share of waiting that is worth a word


def title(run: Run) -> str:
    """Return how long a round took and how much of it clients waited for the slowest."""
    if not len(run.events) or len(run.rounds) < 2:
        return "What the clients did was not recorded for this run"
    ends = run.rounds["time_s"].to_numpy(float)
    length = float(np.diff(ends).mean())
    text = f"A round of {quoted(run.name)} took {units.duration(length)} on average"
    waited = waiting_share(run)
    if waited >= _NOTABLE:
        text += f"; its clients spent {units.share(waited)} of it waiting for the slowest"
    status = run.events["status"].astype(str)
    late, lost = (float((status == kind).mean()) for kind in ("late", "dropped"))
    parts = [f"{units.share(late)} of the replies came late"] if late else []
    if lost:
        parts.append(f"{units.share(lost)} {'' if late else 'of the replies '}were lost on the way")
    return text + (f"; {' and '.join(parts)}" if parts else "")


def waiting_share(run: Run) -> float:
    """Return the share of a round that clients who answered spent waiting for its end, 0 to 1."""
    used = run.events[run.events["status"].astype(str) == "used"]
    last = used.groupby(["round", "client"], as_index=False)["end_s"].max()
    rounds = run.rounds.set_index("round")["time_s"].astype(float)
    end = rounds.reindex(last["round"]).to_numpy()
    start = rounds.shift(1).reindex(last["round"]).to_numpy()
    total = float(np.nansum(end - start))
    return float(np.nansum(end - last["end_s"].to_numpy(float))) / total if total > 0 else math.nan


def with_labels(run: Run) -> pd.DataFrame:
    """Return the clients, fastest first, with the number of their commonest label and its share."""
    clients, counts = run.clients_by_speed, parts.labels(run)
    if not len(counts):
        return clients
    rows = counts.to_numpy(float)
    found = pd.DataFrame({"label": rows.argmax(axis=1)}, index=counts.index)
    found["label_share"] = rows.max(axis=1) / rows.sum(axis=1).clip(min=1)
    return clients.join(found)


def _events(events: pd.DataFrame, most: int) -> dict[str, Any]:
    kept = events.iloc[:most]
    return {
        "round": kept["round"].tolist(),
        "client": kept["client"].tolist(),
        "status": kept["status"].astype(str).tolist(),
        "until": None if len(kept) == len(events) else int(kept["round"].iloc[-1]),
    }


def _clients(clients: pd.DataFrame, most: int) -> dict[str, list[Any]]:
    step = np.unique(np.linspace(0, len(clients) - 1, min(most, len(clients))).astype(int))
    kept = clients.iloc[step]
    columns = {str(name): [short_number(v) for v in kept[name]] for name in kept.columns}
    return {"client": kept.index.tolist()} | columns


class TimelinePanel(RunPanel):
    """The timeline of the chosen run; here the reader chooses the run and asks for a client."""

    name: ClassVar[str] = "timeline"
    section = Section.CLIENTS
    rank = 0
    draws = (timeline,)
    words = staticmethod(title)
    clickable = True

    def figure(self, run: Run) -> go.Figure:
        """Return `figures.timeline` with this run's share of the bars."""
        bars = int(np.clip(EVERY_BAR // len(self.source.runs), 200, 1500))
        return timeline(self.results, run.name, run.seed, bars)

    @cached_property
    def payload(self) -> dict[str, Any]:
        """The figures, and the clients of each run with their events."""
        runs = self.source.runs
        histories = [
            {
                "events": _events(run.events, MOST_EVENTS // len(runs)),
                "clients": _clients(with_labels(run), MOST_CLIENTS // len(runs)),
                "names": run.client_names,
                "labels": list(parts.labels(run).columns),
            }
            for run in runs
        ]
        return super().payload | {"histories": histories}

    @property
    def names(self) -> list[str]:
        """The algorithms to choose from."""
        return list(dict.fromkeys(run.name for run in self.source.runs))

    @property
    def seeds(self) -> list[str]:
        """The seeds to choose from."""
        return list(dict.fromkeys(str(run.seed) for run in self.source.runs))

    @property
    def first(self) -> Run:
        """The run that is shown first."""
        return self.source.runs[self.source.first_run]

    @property
    def many(self) -> bool:
        """Whether the clients are too many for a row each."""
        return any(len(run.clients_by_speed) > MOST_ROWS for run in self.source.runs)

    @property
    def statuses(self) -> list[tuple[str, str, str]]:
        """The key of the bars: class and style of each box, and its meaning."""
        colour = f"background:var(--a{self.source.colour_place(self.first.name)})"
        waiting = [("finished", "", WORDS["finished"]), ("idle", "", f"there, {WORDS['idle']}")]
        if self.many:
            waiting = [("idle", "", "there, not computing")]
        return [
            ("computing", colour, "computing"),
            *waiting,
            ("late", "", "late"),
            ("dropped", "", "dropped"),
            ("away", "", self.shown["figure"]["layout"]["meta"]["blank"]),
        ]

    @property
    def left_out(self) -> str:
        """Which runs have no figures of their clients on the page, empty if all have."""
        shown, recorded = len(self.source.runs), len(self.source.runs_with_events)
        if shown == recorded:
            return ""
        return (
            f"The clients of {shown} of {recorded} runs are on this page, the first "
            "seeds of each algorithm, so that it stays small."
        )
