"""The timeline: start, progress and end of tasks. No other module decides how tasks end.

A task is over at its reply, at its time-out, or when its client goes away, whichever is first
(`fates`); a reply that comes when the server has stopped waiting is late (`settled`), unless it may
enter a later round (`continuing`). Policies decide starts, the end of waiting, and which
replies make an update.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from heapq import heapify, heappop, heappush

import numpy as np

from rayfed.core.arrays import Array, Bools, Floats, Ints, under
from rayfed.engine.clock import Clock, Duration, Times, Traffic
from rayfed.engine.stages import Overlap, Transfers
from rayfed.engine.tasks import DROPPED, LATE, UNFINISHED, USED, Task, Tasks

Send = Mapping[str, Array]
"""What a client downloads."""
_STAGES: Mapping[str, type[Transfers] | type[Overlap]] = {"link": Transfers, "overlap": Overlap}


def fates(end_s: Floats, gone_s: Floats, limit_s: Floats) -> tuple[Ints, Floats]:
    """Return the fates of undisturbed tasks (K,) and their end times.

    Parameters
    ----------
    end_s, gone_s, limit_s : (K,) array of float
        When the reply would be there, when the client goes away, and when the task is timed out. A
        reply in the moment of either is in time.

    Examples
    --------
    >>> end_s, gone_s = np.array([3.0, 3.0, 9.0]), np.array([3.0, 2.0, 7.0])
    >>> status, over_s = fates(end_s, gone_s, np.full(3, 5.0))
    >>> status, over_s  # used, dropped, late
    (array([0, 2, 1]), array([3., 2., 5.]))
    """
    over_s = np.minimum(end_s, gone_s)
    status = np.where(gone_s < end_s, DROPPED, USED)
    status[over_s > limit_s] = LATE
    return status, np.minimum(over_s, limit_s)


def fate(end_s: float, gone_s: float, limit_s: float) -> tuple[int, float]:
    """Return the fate of one task as `fates` does; scalars are faster than arrays of one."""
    over_s = end_s if end_s <= gone_s else gone_s
    if over_s > limit_s:
        return LATE, limit_s
    return (DROPPED if gone_s < end_s else USED), over_s


def node_times(
    clock: Clock, node: Ints, begin_s: float, duration: Duration, lost: Floats | None
) -> tuple[Times, int, float]:
    """Return the times of a task without transfers, its fate, and when it is over.

    Parameters
    ----------
    clock : Clock
    node : (1,) array of int
        The client, which begins when it is available.
    begin_s : float
        Earliest start. A task of a client that never comes back is lost at that time.
    duration : Duration
    lost : (1,) array of float, optional
        Share of the task after which it is lost; see `Clock.crash_losses`.
    """
    start_s = clock.first_available(node, begin_s)
    if math.isinf(start_s):
        gone_s = np.array([begin_s])
        times = Times(duration, gone_s, gone_s, gone_s, gone_s, gone_s)
        return times, DROPPED, begin_s
    away_s = clock.population.next_change(node, start_s)
    times = clock.alone(node, duration, np.array([start_s]), away_s, lost)
    status, over_s = fate(float(times.end_s[0]), float(times.gone_s[0]), math.inf)
    return times, status, over_s


def begun(
    ids: Ints, now_s: float, times: Times, traffic: Traffic, *, serial: int,
    timeout_s: float | None,
    draw: int | Ints, version: int | Ints, weight: Floats, ends_known: bool, ask: int = 0,
    attempt: int | Ints = 0, drawn: int | Ints = 1,
) -> Tasks:  # fmt: skip
    """Return the tasks that clients (K,) start now, with their fates where known.

    Parameters
    ----------
    ids : (K,) array of int
    now_s : float
    times : Times
        What they take.
    traffic : Traffic
    serial : int
        Number of tasks begun before.
    timeout_s : float, optional
        Seconds after which the server gives each up.
    ends_known : bool
        Whether they have the link to themselves, so that they end at `times`.
    """
    end_s = times.end_s if ends_known else np.full(len(ids), math.inf)
    limit_s = np.full(len(ids), math.inf if timeout_s is None else now_s + timeout_s)
    status, over_s = fates(end_s, times.gone_s, limit_s)
    one = np.ones(len(ids), dtype=np.int64)
    return Tasks(
        over_s, ids, serial + one.cumsum(), status, draw * one, version * one, ask * one,
        attempt * one, drawn * one, times.duration.steps, traffic.down * one, traffic.up * one,
        weight, times.start_s, times.duration.compute_s, times.free_s, end_s, times.gone_s,
        limit_s,
    )  # fmt: skip


def settled(tasks: Tasks, now_s: float, first: int | None, deadline_s: float) -> tuple[Ints, float]:
    """Return the fates of tasks with known ends, and the end of the server's wait.

    It waits until all are over, for the first replies, or until a deadline. It notices at once when
    a client goes away.

    Parameters
    ----------
    tasks : Tasks
        Those (K,) of one Ask; of equally early ones the lower id comes first.
    now_s : float
        When the first began.
    first : int, optional
        The number of replies after which the server stops waiting.
    deadline_s : float
        The virtual time until which it waits at most; inf if there is none.

    Returns
    -------
    status : (K,) array of int
        `USED`, `LATE` or `DROPPED`, each.
    close_s : float
    """
    status, over_s = tasks.status, tasks.over_s
    close_s = last_s = float(over_s.max(initial=now_s))
    if first is not None and np.count_nonzero(status == USED) >= first:
        order = np.lexsort((tasks.client, over_s))
        arrived = order[status[order] == USED]
        close_s = float(over_s[arrived[first - 1]])
        status = status.copy()
        status[arrived[first:]] = LATE
    close_s = max(min(close_s, deadline_s), now_s)
    late = close_s < last_s
    return np.where(over_s > close_s, LATE, status) if late else status, close_s


def continuing(tasks: Tasks, status: Ints, close_s: float) -> Bools:
    """Return which tasks (K,) may enter a later round: the late ones that are not timed out.

    `status` and `close_s` are what `settled` returned.
    """
    timed_out = (tasks.status == LATE) & (tasks.over_s <= close_s)
    return np.asarray((status == LATE) & ~timed_out)


def unopened(status: Ints, places: Ints) -> Ints:
    """Return the fates of tasks (K,) if the server cannot open some replies: late."""
    status = status.copy()
    status[places] = LATE
    return status


class Timeline:
    """Unfinished tasks, and finished ones that wait to be taken.

    Policies change it in place; `copy` is what a round begins from, `arrays` are its values for a
    checkpoint.

    Parameters
    ----------
    stages : Transfers or Overlap, optional
        Where tasks are whose ends are not known when they begin. Such a task stands on the timeline
        with the time at which it would be broken off.

    Attributes
    ----------
    now_s : float
        Virtual time.
    serial : int
        Tasks begun so far.
    open : dict of int to Work
        The unfinished tasks, by serial number.
    waiting : list of Task
        Tasks that are over and have not been taken: replies that wait for others to make an update,
        or for the end of a round; in asynchronous runs also what is to be asked again (`again`).
    again : list of Task
        Tasks that have failed in this moment and are asked for again in it.
    freed : list of int
        Clients that have become free since a policy looked.
    sends : dict of int to mapping of str to array
        What clients download, by version, as long as a task that started from it is not done.
    version : int
        The newest version of the model; in rounds that of the round before.
    numbers : dict of int to int
        How often each client was dispatched, where that keys draws.
    exhausted : bool
        Whether no task is unfinished and no client will ever come back.
    """

    def __init__(self, stages: Transfers | Overlap | None = None) -> None:
        self.stages = stages
        self.now_s, self.serial, self.version = 0.0, 0, 0
        self.exhausted = False
        self.open: dict[int, Task] = {}
        self.waiting: list[Task] = []
        self.again: list[Task] = []
        self.freed: list[int] = []
        self.sends: dict[int, Send] = {}
        self.numbers: dict[int, int] = {}
        self._ends: list[Task] = []  # a heap; entries that are not `open` any more are skipped
        self._started: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self.open) + len(self.waiting)

    # -- what happens ----------------------------------------------------------------------

    def begin(self, tasks: Iterable[Task]) -> None:
        """Let tasks begin; where they are at first is the policy's concern."""
        for task in tasks:
            self.open[task.serial] = task
            heappush(self._ends, task)
            self._started[task.version] += 1
            self.serial = task.serial

    @property
    def next_s(self) -> float:
        """When the next thing happens; inf if nothing will."""
        first = self._first()
        over_s = math.inf if first is None else first.over_s
        return over_s if self.stages is None else min(over_s, self.stages.next_s)

    def advance(self, now_s: float) -> None:
        """Move on to a time that is not after `next_s`."""
        self.now_s = now_s
        if self.stages is None or self.stages.next_s > now_s:
            return
        moved = self.stages.advance(now_s)
        for serial, free_s in moved.arrived.items():
            self._ended(self.open[serial]._replace(free_s=free_s, end_s=now_s), USED)
        for serial in moved.lost:
            self._ended(self.open[serial]._replace(gone_s=now_s), DROPPED)
        self.freed += moved.free

    def over(self) -> Task | None:
        """Take the next task that is over, in the order of time and clients; None if none is.

        Its `free_s` is inf if it overlaps with others and held its place until now.
        """
        task = self._first()
        if task is None or task.over_s > self.now_s:
            return None
        heappop(self._ends)
        del self.open[task.serial]
        if isinstance(self.stages, Overlap) and self.stages.holds(task):
            task = task._replace(free_s=math.inf)
        if self.stages is None or self.stages.leave(self.now_s, task):
            self.freed.append(task.client)
        return task

    def all_over(self, now_s: float) -> Iterator[Task]:
        """Move on to a time and take all tasks that are over by then."""
        while (next_s := self.next_s) <= now_s and next_s < math.inf:
            self.advance(max(next_s, self.now_s))
            while (task := self.over()) is not None:
                yield task
        self.now_s = now_s

    def forget(self, tasks: Iterable[Task]) -> None:
        """Remove finished tasks and the model versions that no task starts from any more."""
        for task in tasks:
            self._started[task.version] -= 1
            if not self._started[task.version]:
                del self._started[task.version]
                if task.version != self.version:
                    self.sends.pop(task.version, None)

    def release(self) -> None:
        """Drop versions without a task that starts from them, the newest too."""
        self.sends = {v: send for v, send in self.sends.items() if self._started[v]}

    def break_off(self, tasks: Iterable[Task]) -> None:
        """Remove unfinished tasks that the server no longer waits for."""
        for task in tasks:
            del self.open[task.serial]
            if self.stages is not None:
                self.stages.leave(self.now_s, task._replace(status=LATE))

    def update(self, version: int, send: Send) -> None:
        """Begin a version of the model, which clients download as `send`."""
        if not self._started[self.version]:
            self.sends.pop(self.version, None)
        self.version = version
        self.sends[version] = send

    # -- state ----------------------------------------------------------------------------

    @property
    def busy_clients(self) -> list[int]:
        """The clients that can begin nothing."""
        if isinstance(self.stages, Overlap):
            return list(self.stages.computing)
        return [task.client for task in self.open.values() if task.over_s > self.now_s]

    @property
    def taken(self) -> int:
        """Number of occupied places; clients that only upload have left theirs."""
        return len(self.stages.computing) if isinstance(self.stages, Overlap) else len(self.open)

    def next_over_s(self) -> float:
        """Return when the next task is over; inf if none ever is."""
        if self.stages is None:
            return self.next_s
        return next((task.over_s for task in self.copy().all_over(math.inf)), math.inf)

    def unfinished(self, *, in_time: bool) -> Tasks:
        """Return the unfinished tasks that have begun at the end of a run, by start or by end."""
        rows = [task for task in [*self.open.values(), *self.waiting] if task.start_s <= self.now_s]
        tasks = Tasks.of(sorted(rows) if in_time else sorted(rows, key=lambda task: task.serial))
        return replace(
            tasks, status=np.full(len(tasks), UNFINISHED),
            over_s=np.minimum(tasks.over_s, self.now_s),
        )  # fmt: skip

    def copy(self) -> Timeline:
        """Return a copy with lists of its own; tasks and messages are values."""
        if isinstance(self.stages, Transfers):
            return Timeline.of(self.arrays(), self.stages)
        made = Timeline(self.stages)
        vars(made).update(vars(self))
        for name in ("open", "waiting", "again", "freed", "sends", "_ends", "_started"):
            setattr(made, name, getattr(self, name).copy())
        return made

    # -- values ----------------------------------------------------------------------------

    def arrays(self) -> dict[str, Array]:
        """Return everything as named arrays."""
        counts = (self.version, self.serial, int(self.exhausted), len(self.open), len(self.waiting))
        tasks = Tasks.of([*self.open.values(), *self.waiting, *self.again])
        arrays: dict[str, Array] = {
            "now_s": np.array(self.now_s),
            "counts": np.array(counts),
            "clients": np.array(list(self.numbers), dtype=np.int64),
            "numbers": np.array(list(self.numbers.values()), dtype=np.int64),
            "versions": np.array(list(self.sends), dtype=np.int64),
        }
        arrays |= {f"works.{name}": column for name, column in tasks.arrays().items()}
        for name in next(iter(self.sends.values()), {}):
            stack = np.stack([send[name] for send in self.sends.values()])
            arrays[f"send.{name}"] = stack
        for prefix, kind in _STAGES.items():
            if isinstance(self.stages, kind):
                arrays |= {f"{prefix}.{k}": v for k, v in self.stages.arrays().items()}
        return arrays

    @classmethod
    def of(cls, arrays: Mapping[str, Array], stages: Transfers | None = None) -> Timeline:
        """Return a timeline from the result of `arrays`; its clients are those of `stages`."""
        made = cls()
        for prefix, kind in _STAGES.items():
            if parts := under(arrays, f"{prefix}."):
                made.stages = kind.of(parts)
        if isinstance(made.stages, Transfers) and stages is not None:
            made.stages.population = stages.population
        # earlier checkpoints have one count more, which is 0 between rows
        version, serial, *_, exhausted, begun, waiting = arrays["counts"].tolist()
        rows = Tasks.from_arrays(under(arrays, "works.")).rows()
        made.open = {task.serial: task for task in rows[:begun]}
        made.waiting, made.again = rows[begun : begun + waiting], rows[begun + waiting :]
        made._ends = rows[:begun]
        heapify(made._ends)
        made._started = Counter(task.version for task in rows)
        made.now_s, made.version, made.serial = float(arrays["now_s"]), version, serial
        made.exhausted = bool(exhausted)
        numbers = (arrays["clients"].tolist(), arrays["numbers"].tolist())
        made.numbers = dict(zip(*numbers, strict=True))
        stacks = under(arrays, "send.")
        made.sends = {
            v: {name: stack[k] for name, stack in stacks.items()}
            for k, v in enumerate(arrays["versions"].tolist())
        }
        return made

    def _first(self) -> Task | None:
        """Return the task that is over next, as far as that is known."""
        while self._ends:
            task = self._ends[0]
            if self.open.get(task.serial) is task:
                return task
            heappop(self._ends)
        return None

    def _ended(self, task: Task, status: int) -> None:
        """Note that a task is over now."""
        task = task._replace(over_s=self.now_s, status=status)
        self.open[task.serial] = task
        heappush(self._ends, task)
