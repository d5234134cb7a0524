"""The table of tasks: one row for each task of a client, and the only type that holds it.

A task is under way from when its client is asked until it is over: at the reply, or when it is
timed out or its client goes away. Events, counts, requests and checkpoints are views of this table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from rayfed.core.arrays import Array, Bools, Floats, Ints
from rayfed.core.summary import STATUS as STATUS  # their names in files
from rayfed.core.values import changed

USED, LATE, DROPPED, UNFINISHED = range(4)
"""What became of a client's task: its reply was used, it came after the server had stopped waiting,
the client went away before, or the run ended before the reply entered an update. Plain
numbers: NumPy compares arrays with an enum's slowly."""


class Task(NamedTuple):
    """One row of the table; rows compare by when they are over, then by client, then by serial.

    Parameters
    ----------
    over_s : float
        When it is over: at the reply, at its time-out, or when its client goes away. Where only
        what breaks it off is known yet, the time of that.
    client : int
    serial : int
        Its number in the run, from 1.
    status : int
        `USED`, `LATE` or `DROPPED`: what becomes of it by itself, as far as that is known.
    draw : int
        Coordinate of keyed draws: the round, or how often the client has been dispatched.
    version : int
        Version of the model that it starts from; schedules go by the round after it.
    ask, attempt : int
        Number of the Ask in its round, and 0 for a first attempt, k + 1 for one in the place of an
        attempt k that failed.
    drawn : int
        How often the client was drawn for the Ask.
    steps : int
        Local steps; 0 for other tasks.
    down_bytes, up_bytes : int
        What the client downloads, and uploads when it is done.
    weight : float
        Raw weight of the reply.
    start_s, compute_s : float
        When it starts, and its seconds of computing.
    free_s : float
        When its client may compute for the next Ask, where that overlaps with transfers; inf for
        a task of arrivals that was over before.
    end_s : float
        When the reply is there; inf if that is not known yet, or never.
    gone_s, limit_s : float
        When its client goes away or its connection breaks, and when it is timed out; inf if never.
    """

    over_s: float
    client: int
    serial: int
    status: int
    draw: int
    version: int
    ask: int
    attempt: int
    drawn: int
    steps: int
    down_bytes: int
    up_bytes: int
    weight: float
    start_s: float
    compute_s: float
    free_s: float
    end_s: float
    gone_s: float
    limit_s: float


_FATES = len(STATUS)
_NAMES = Task._fields
_PLACE = {name: place for place, name in enumerate(_NAMES)}
_EVENTS = {
    "client": "client", "start_s": "start_s", "compute_s": "compute_s", "end_s": "over_s",
    "status": "status", "steps": "steps", "version": "version", "draws": "drawn",
}  # fmt: skip
"""Columns of ``events`` that are columns of tasks."""
_TYPES: tuple[Any, ...] = (np.float64, *[np.int64] * 11, *[np.float64] * 7)


@dataclass  # not frozen: that takes six times as long to make, for every update of one reply
class Tasks:
    """Tasks as columns (K,), which are named as in `Task`; read-only."""

    over_s: Floats
    client: Ints
    serial: Ints
    status: Ints
    draw: Ints
    version: Ints
    ask: Ints
    attempt: Ints
    drawn: Ints
    steps: Ints
    down_bytes: Ints
    up_bytes: Ints
    weight: Floats
    start_s: Floats
    compute_s: Floats
    free_s: Floats
    end_s: Floats
    gone_s: Floats
    limit_s: Floats

    @classmethod
    def of(cls, rows: Iterable[Task]) -> Tasks:
        """Return rows as a table."""
        columns: list[Any] = list(zip(*rows, strict=True)) or [()] * len(_NAMES)
        return cls(*map(np.array, columns, _TYPES))

    @classmethod
    def joined(cls, parts: Sequence[Tasks]) -> Tasks:
        """Return tables as one, by client and then by start."""
        tasks = cls(*columns_of(parts, *_NAMES))
        return tasks.part(np.lexsort((tasks.start_s, tasks.client)))

    def rows(self) -> list[Task]:
        """Return the table as rows."""
        columns = (getattr(self, name).tolist() for name in _NAMES)
        return [Task(*row) for row in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return len(self.client)

    def with_status(self, status: Ints) -> Tasks:
        """Return these tasks with another status (K,)."""
        return changed(self, status=status)

    def part(self, chosen: Bools | Ints) -> Tasks:
        """Return some of the tasks, by a mask or by their places."""
        return Tasks(*(getattr(self, name)[chosen] for name in _NAMES))

    def used(self) -> Ints:
        """Return the places of used replies, in the order of their clients."""
        places: Ints = (self.status == USED).nonzero()[0]  # quicker than `flatnonzero`
        clients = self.client[places]
        return places if (clients[1:] > clients[:-1]).all() else places[np.argsort(clients)]

    @property
    def seconds(self) -> Floats:
        """Virtual seconds from the start of each to its reply."""
        return np.asarray(self.end_s - self.start_s)

    def arrays(self) -> dict[str, Array]:
        """Return the columns by name."""
        return {name: getattr(self, name) for name in _NAMES}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Tasks:
        """Return a table from the result of `arrays`."""
        return cls(*(arrays[name] for name in _NAMES))


class CountedTasks(NamedTuple):
    """Tasks (K,) that are over, as one row of ``rounds`` counts them.

    Parameters
    ----------
    tasks : Tasks or list of Task
        What became of them is their `status`. A table of a single task is dearer than the task.
    losses : sequence of float
        Mean losses over the local steps; NaN where nothing was computed.
    round : int
        Number of the row; -1 where no row counts them.
    newest : int
        Version of the model, by which replies are stale.
    numbers : (K,) array of int, optional
        What events call the Ask; how often the client has come before in the row if None.
    waits : dict of str to (K,) array, optional
        Their `columns.WAITS`, in steps without a server.
    """

    tasks: Tasks | list[Task]
    losses: Sequence[float] | Floats
    round: int
    newest: int
    numbers: Ints | None = None
    waits: Mapping[str, Array] | None = None

    def add_to(
        self, counts: dict[str, int], sent: int | None = None, *, participants: bool = True
    ) -> None:
        """Add them to the counts of a row; bytes are those of each task.

        Parameters
        ----------
        counts : dict of str to int
            By column. Downloads are not among them: they count when tasks begin.
        sent : int, optional
            Bytes of uploads that have come; of those used and late if None.
        participants : bool
            Whether clients whose replies are used count as participants.
        """
        tasks = self.tasks
        if isinstance(tasks, Tasks):
            number, down, up, steps = (
                np.bincount(tasks.status, each, len(STATUS)).tolist()  # exact to 2^53
                for each in (None, tasks.down_bytes, tasks.up_bytes, tasks.steps)
            )
        else:
            number, down, up, steps = [0] * _FATES, [0] * _FATES, [0] * _FATES, [0] * _FATES
            for task in tasks:
                number[task.status] += 1
                down[task.status] += task.down_bytes
                up[task.status] += task.up_bytes
                steps[task.status] += task.steps
        if participants:
            counts["participants"] += number[USED]
        counts["late"] += number[LATE]
        counts["dropped"] += number[DROPPED]
        counts["bytes_up"] += int(up[USED] + up[LATE]) if sent is None else sent
        counts["bytes_wasted"] += int(down[LATE] + down[DROPPED] + up[LATE])
        counts["local_steps"] += int(steps[USED])


def columns_of(parts: Sequence[Tasks | list[Task]], *names: str) -> list[Array]:
    """Return some columns of tasks, given as tables or as lists of rows."""
    tables = [part for part in parts if isinstance(part, Tasks)]
    if tables:
        return [np.concatenate([getattr(each, name) for each in tables]) for name in names]
    rows = list(chain.from_iterable(part for part in parts if isinstance(part, list)))
    places = [_PLACE[name] for name in names]
    return [np.array([row[k] for row in rows], _TYPES[k]) for k in places]


def events_of(ended: Sequence[CountedTasks]) -> dict[str, Array]:
    """Return tasks, of one row or more, as columns of ``events``."""
    tasks = [each.tasks for each in ended]
    counts = [len(part) for part in tasks]
    columns = dict(zip(_EVENTS, columns_of(tasks, *_EVENTS.values()), strict=True))
    rounds, newest = (
        np.repeat([getattr(each, name) for each in ended], counts) for name in ("round", "newest")
    )
    numbers = [each.numbers for each in ended if each.numbers is not None]
    waits = [each.waits for each in ended if each.waits is not None]
    names = waits[0] if waits else ()
    columns |= {name: np.concatenate([each[name] for each in waits]) for name in names}
    return columns | {
        "round": rounds,
        "ask": np.concatenate(numbers) if numbers else _again(rounds, columns["client"]),
        "loss": np.concatenate([each.losses for each in ended]),
        "staleness": np.where(columns["status"] == USED, newest - columns["version"], -1),
    }


def _again(rounds: Ints, clients: Ints) -> Ints:
    """Return the number of earlier occurrences of each client (K,) in its row."""
    times: Counter[tuple[int, int]] = Counter()
    again = []
    for place in zip(rounds.tolist(), clients.tolist(), strict=True):
        again.append(times[place])
        times[place] += 1
    return np.array(again, dtype=np.int64)


def distinct(drawn: Ints) -> tuple[Ints, Ints]:
    """Return the distinct ids (K,) of a multiset, ascending, and their counts.

    Examples
    --------
    >>> distinct(np.array([7, 2, 7, 5]))
    (array([2, 5, 7]), array([1, 1, 2]))
    """
    if (drawn[1:] > drawn[:-1]).all():
        return drawn, np.ones(len(drawn), dtype=np.int64)
    ids, counts = np.unique(drawn, return_counts=True)
    return ids, counts
