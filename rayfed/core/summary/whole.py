"""The summary of a run from its tables."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from rayfed.core.arrays import Array, unique_inverse
from rayfed.core.summary.absence import Absence
from rayfed.core.summary.grid import banded, ranked
from rayfed.core.summary.sums import Sums

NEEDED = {
    "rounds": ("round", "time_s", "bytes_down", "bytes_up"),
    "events": (
        "round", "ask", "client", "start_s", "compute_s", "end_s", "wait_s", "status", "steps",
        "staleness",
    ),
    "clients": ("client", "speed_s", "straggler"),
    "away": ("client", "start_s", "end_s"),
}  # fmt: skip
"""The columns of each table that a summary is made from, of those that there are."""
_AT_ONCE = 2_000_000  # events; more are added piece by piece

Table = Mapping[str, Array]
_NONE: Table = {name: np.empty(0, np.int64) for name in NEEDED["events"]}


class Summary(NamedTuple):
    """Both tables as columns by name."""

    usage: dict[str, Array]
    density: dict[str, Array]


def summarised(
    rounds: Table,
    events: Table,
    clients: Table,
    away: Table | None = None,
    network: Mapping[str, Any] | None = None,
) -> Summary:
    """Return the summary of a finished run, or of the recorded part.

    Parameters
    ----------
    rounds, events, clients : mapping of str to array
        Its tables, of which `NEEDED` is read; ``status`` as numbers. `clients` may be empty.
    away : mapping of str to array, optional
        When clients were away; None if it is not recorded.
    network : mapping, optional
        ``clients.network`` of the scenario.
    """
    events = events or _NONE
    ids, band = _bands(events, clients)
    sums = Sums(lambda some: band[np.searchsorted(ids, some)], network, Absence(away))
    parts = pieces(rounds, events)
    for number, (rows, tasks) in enumerate(parts):
        sums.add(rows, tasks, last=number == len(parts) - 1)
    sums.know(ids)
    return Summary(*sums.tables())


def network_of(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return ``clients.network`` of the scenario in a ``run.json``; empty if it is not known."""
    clients = (record.get("scenario") or {}).get("clients") or {}
    return clients.get("network") or {}


def _bands(events: Table, clients: Table) -> tuple[Array, Array]:
    """Return the ids of all clients that are known of, ascending, and their bands."""
    known = np.asarray(clients.get("client", np.empty(0, np.int64)))
    asked, inverse = unique_inverse(events["client"])
    ids = np.union1d(known, asked).astype(np.int64)
    slow, speed, seen = np.zeros(len(ids), bool), *np.full((2, len(ids)), np.nan)
    at = np.searchsorted(ids, known)
    speed[at] = clients.get("speed_s", np.full(len(known), np.nan))
    slow[at] = clients.get("straggler", np.zeros(len(known), bool))
    paces = events["compute_s"] / np.maximum(events["steps"], 1)
    tasks = np.bincount(inverse, minlength=len(asked))
    seen[np.searchsorted(ids, asked)] = np.bincount(inverse, paces, len(asked)) / tasks
    return ids, banded(ranked(slow, speed, seen, ids))


def pieces(rounds: Table, events: Table) -> list[tuple[Table, Table]]:
    """Return rows and their tasks in a few pieces; tasks that no row counts are in the last."""
    events = events or _NONE
    numbers = np.asarray(rounds["round"])
    row = np.searchsorted(numbers, np.asarray(events["round"]))
    row = np.where(np.asarray(events["round"]) < 0, len(numbers), row)
    counts = np.cumsum(np.bincount(row, minlength=len(numbers) + 1)[: len(numbers)])
    cuts = np.flatnonzero(np.diff(counts // _AT_ONCE)) + 1
    edges = [0, *cuts.tolist(), len(numbers)]
    return [
        (
            {name: values[low:high] for name, values in rounds.items()},
            _within(events, row, low, high, high == len(numbers)),
        )
        for low, high in pairwise(edges)
    ]


def _within(events: Table, row: Array, low: int, high: int, last: bool) -> Table:
    if low == 0 and last:
        return events
    chosen = (row >= low) & ((row < high) | last)
    return {name: values[chosen] for name, values in events.items()}
