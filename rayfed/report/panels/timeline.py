"""What the clients of a run did over simulated time, and the history of each."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.report.figures import timeline
from rayfed.report.figures.timeline import MOST_ROWS
from rayfed.report.figures.utilisation import WORDS
from rayfed.report.panels.base import RunPanel, Section
from rayfed.report.panels.phrases import quoted
from rayfed.report.read import parts, units
from rayfed.report.read.results import Run
from rayfed.report.read.units import short_number

MOST_BARS = 15_000  # bars of all timelines together
MOST_EVENTS = 120_000  # events of all runs together from which a client's history is told
MOST_CLIENTS = 20_000  # clients of all runs together with their facts
_NOTABLE = 0.005  # least share of waiting that is worth a word


class TimelinePanel(RunPanel):
    """The timeline of the chosen run; here the reader chooses the run and asks for a client."""

    name: ClassVar[str] = "timeline"
    section = Section.CLIENTS
    rank = 0
    clickable = True

    def title(self, run: Run) -> str:
        """Return how long a round took and how much of it clients waited for the slowest."""
        return title(run)

    def figure(self, run: Run) -> go.Figure:
        """Return `figures.timeline` with this run's share of the bars."""
        bars = int(np.clip(MOST_BARS // len(self.source.runs), 200, 1500))
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
