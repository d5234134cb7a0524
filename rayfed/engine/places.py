"""The places of an asynchronous run: filled at once; a row closes when a buffer is full.

Nothing here depends on a number that a client computes: delays, availability and keyed draws decide
it all. So the schedule of an update is known before anything of it is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from rayfed.algorithms.asynchronous import Asynchronous
from rayfed.core.arrays import Array, Bools, Floats, Ints
from rayfed.core.errors import RunFailed
from rayfed.engine.clock import Duration, Traffic
from rayfed.engine.exchange import Exchange, SentAsk
from rayfed.engine.run import Run
from rayfed.engine.stages import Overlap, Transfers
from rayfed.engine.tasks import DROPPED, USED, Task, Tasks
from rayfed.engine.timeline import Timeline, begun, fate
from rayfed.messages import Ask, State
from rayfed.selection import SelectionView

MOST_WAKES = 100_000
"""Changes of availability that the server waits for between two ends of tasks."""
OfTier: TypeAlias = Callable[[Ints], Bools]
"""Which clients (K,) are in a tier."""
_LEAST, _MOST = 16, 64  # tasks of a client that are looked at together
_CACHED = 2**14  # clients
_BLOCK = 64  # clients with neighbouring ids that are looked at together, if all can be kept


class Durations:
    """Durations of the tasks of one run, drawn for several tasks of a client at a time.

    Keyed draws for one client cost as much as for a hundred. The duration of a task depends on the
    client and on the number of its task alone, so it can be known before the client is dispatched.

    Parameters
    ----------
    exchange : Exchange
    ask : Ask
        What clients are asked; its model does not matter here.
    """

    def __init__(self, exchange: Exchange, ask: Ask) -> None:
        self.exchange, self.ask = exchange, ask
        self.step_state = exchange.counter.init()
        self.known: dict[int, tuple[int, Array]] = {}
        population = exchange.clock.population
        self.may_break = population.lossy or population.crashing

    def of(
        self, ids: Ints, numbers: Ints, traffic: Traffic, now_s: float
    ) -> tuple[Duration, Floats | None]:
        """Return the duration of a task and its lost share; the share is inf if none is lost.

        Parameters
        ----------
        ids : (K,) array of int
            Distinct clients, ascending.
        numbers : (K,) array of int
            How often each has been dispatched, this time included.
        traffic : Traffic
            What each downloads and uploads; where that is the same for all it never changes.
        now_s : float
            When they begin, which matters where bandwidths change over time.
        """
        steps, down_s, compute_s, up_s, lost = np.array(self.rows(ids, numbers, traffic, now_s)).T
        broken = lost if self.may_break else None
        return Duration(steps.astype(np.int64), down_s, compute_s, up_s), broken

    def rows(self, ids: Ints, numbers: Ints, traffic: Traffic, now_s: float) -> list[Array]:
        """Return task durations by client: steps, seconds down, computing and up, lost share.

        Parameters are those of `of`.
        """
        same = isinstance(traffic.down, int) and isinstance(traffic.up, int)
        if not same or self.exchange.clock.population.unsteady:
            return list(self._table(ids, numbers, traffic, now_s))
        pairs = list(zip(ids.tolist(), numbers.tolist(), strict=True))
        unknown = [k for k, pair in enumerate(pairs) if not self._knows(*pair)]
        if len(self.known) + len(unknown) > _CACHED:
            self.known.clear()
            unknown = list(range(len(ids)))
        if unknown:
            self._look_ahead(ids[unknown], numbers[unknown], traffic)
        rows = []
        for client, number in pairs:
            first, table = self.known[client]
            rows.append(table[number - first])
        return rows

    def _knows(self, client: int, number: int) -> bool:
        first, table = self.known.get(client, (0, ()))
        return first <= number < first + len(table)

    def _look_ahead(self, ids: Ints, numbers: Ints, traffic: Traffic) -> None:
        """Draw the next tasks of clients (K,): the more, the more often they come."""
        ids, numbers = self._with_neighbours(ids, numbers)
        counts = np.clip(4 * numbers, _LEAST, _MOST)
        starts = np.concatenate([[0], np.cumsum(counts)])
        repeated = ids.repeat(counts)
        which = np.arange(len(repeated)) - (starts[:-1] - numbers).repeat(counts)
        table = self._table(repeated, which, traffic)
        for k, (client, number) in enumerate(zip(ids.tolist(), numbers.tolist(), strict=True)):
            self.known[client] = number, table[starts[k] : starts[k + 1]]

    def _with_neighbours(self, ids: Ints, numbers: Ints) -> tuple[Ints, Ints]:
        """Add the first tasks of clients near others (K,), if nothing is known of them."""
        count = self.exchange.clock.population.count
        if count > _CACHED:
            return ids, numbers
        near = (np.unique(ids // _BLOCK)[:, None] * _BLOCK + np.arange(_BLOCK)).ravel()
        others = np.setdiff1d(near[near < count], ids, assume_unique=True)
        others = np.array([i for i in others.tolist() if i not in self.known], dtype=np.int64)
        return np.concatenate([ids, others]), np.concatenate([numbers, np.ones_like(others)])

    def _table(self, ids: Ints, numbers: Ints, traffic: Traffic, now_s: float = 0.0) -> Array:
        """Return the columns (K, 5) of tasks."""
        clock, counter = self.exchange.clock, self.exchange.counter
        pace = clock.pace(ids, numbers) * self.ask.shares(ids)
        steps = np.zeros(len(ids), dtype=np.int64)
        if self.ask.local:
            steps = counter.steps(ids, pace, numbers, self.step_state)
        duration = clock.duration(self.ask, traffic, ids, pace, steps, now_s)
        if self.exchange.run.training.algorithm.gossip:  # messages take their time later
            duration = duration._replace(down_s=np.zeros(len(ids)), up_s=np.zeros(len(ids)))
        duration, lost = clock.crash_losses(ids, duration, traffic, now_s, numbers)
        broken = np.full(len(ids), np.inf) if lost is None else lost
        return np.stack([steps, duration.down_s, duration.compute_s, duration.up_s, broken], axis=1)


@dataclass(frozen=True)
class Tiers:
    """The tiers of a run.

    Parameters
    ----------
    table : (N,) array of int
        The tier of every client.
    places : list of int
        Number of busy clients of each tier at a time, at least one and at most all.
    """

    table: Ints
    places: list[int]

    @classmethod
    def of(cls, algorithm: Asynchronous, count: int, places: int) -> Tiers:
        """Divide places among the tiers of `count` clients; the first tiers get the remainder.

        Examples
        --------
        >>> Tiers.of(Asynchronous(), count=5, places=3).places
        [3]
        """
        tiers, table = algorithm.tier_count, algorithm.tier_of(np.arange(count))
        sizes = np.bincount(table, minlength=tiers).tolist()
        even = [places // tiers + (tier < places % tiers) for tier in range(tiers)]
        return cls(table, [min(max(e, 1), size) for e, size in zip(even, sizes, strict=True)])

    def of_client(self, client: int) -> int:
        """Return the tier of a client."""
        return int(self.table[client])

    def members(self, tier: int) -> OfTier:
        """Return which clients are in a tier, as a function of ids."""
        return lambda ids: np.asarray(self.table[ids] == tier)


@dataclass
class FinishedTasks:
    """Tasks that ended since the previous row.

    Parameters
    ----------
    used : list of Task
        The replies of the next update, in the order of their arrival; empty if there is none.
    failed : list of Task
        The tasks that ended without a usable reply, in the order of their ends.
    sent : int
        Bytes of the uploads that have come, those that wait for an update and late ones included.
    fruitless : int
        Tasks that have ended in a row without a usable reply.
    """

    used: list[Task] = field(default_factory=list)
    failed: list[Task] = field(default_factory=list)
    sent: int = 0
    failed_in_a_row: int = 0


class Places:
    """Concurrent client tasks of one asynchronous run.

    Parameters
    ----------
    run : Run
        What is run.
    exchange : Exchange
        Duration of tasks.
    ask : Ask
        What clients are asked; its model does not matter here.
    line : Timeline
        What is under way; it is changed in place.
    """

    def __init__(self, run: Run, exchange: Exchange, ask: Ask, line: Timeline) -> None:
        self.run, self.exchange, self.line = run, exchange, line
        self.asked = SentAsk(ask, "algorithm")
        self.channel: State = {}
        self.batteries: dict[str, Array] = {}
        none = np.empty(0, dtype=np.int64)
        varies = exchange.channel.codes or ask.share is not None
        self.plain = None if varies else exchange.traffic(self.asked, none, {}, 0)
        self.down_bytes = 0  # of tasks that have begun
        self.population, self.rule = run.federation.population, run.participation
        algorithm = run.training.algorithm
        assert isinstance(algorithm, Asynchronous)
        self.algorithm, self.together = algorithm, algorithm.redispatch == "update"
        clients = self.population.count
        self.count = min(algorithm.concurrency or clients, clients)
        self.tiers = Tiers.of(algorithm, clients, self.count) if self.together else None
        self.durations = Durations(exchange, ask)
        pauses = exchange.clock.resume
        breaks = self.durations.may_break or exchange.batteries is not None
        self.undisturbed = line.stages is None and not (pauses or breaks)
        if isinstance(line.stages, Transfers) and pauses:
            line.stages.population = self.population
        timeout_s = self.rule.timeout_s
        self.timeout_s = math.inf if timeout_s is None else timeout_s
        self.busy = np.zeros(clients, dtype=np.bool_)
        self.busy[line.busy_clients] = True
        self.wake_s = -math.inf  # unknown: it is looked for when a place stays free

    def advance(
        self, selection: State, channel: State, batteries: dict[str, Array]
    ) -> FinishedTasks:
        """Run the clock on until an update can be made, or a row is due without one.

        All that is over at one instant is handled, in the order of the clients' ids, before anybody
        is dispatched at that instant.

        Raises
        ------
        RunFailed
            If no client is available after `MOST_WAKES` changes of availability.
        """
        line, closed, wakes, self.channel = self.line, FinishedTasks(), 0, channel
        self.batteries = batteries
        while True:
            if line.next_s <= line.now_s:
                wakes = 0
                line.advance(line.now_s)
            while (task := line.over()) is not None:
                if self._end(task, closed):
                    return closed
            if line.stages is not None and line.next_s <= line.now_s:
                continue  # who waited for an upload that is given up is free
            if self._dispatch(selection, closed):
                return closed
            next_s = min(line.next_s, self.wake_s)
            if math.isinf(next_s):
                line.exhausted = True
                return closed
            wakes += 1
            if wakes > MOST_WAKES:
                raise RunFailed(
                    f"after {MOST_WAKES:,} changes of availability, at {line.now_s:.6g} s, "
                    "no client is available; increase availability"
                )
            line.now_s = max(next_s, line.now_s)

    def _end(self, task: Task, closed: FinishedTasks) -> bool:
        """Note that a task is over; return whether the row is complete."""
        line = self.line
        closed.sent += task.up_bytes if task.status != DROPPED else 0
        if task.status == USED:
            closed.failed_in_a_row = 0
            line.waiting.append(task)
        else:
            closed.failed.append(task)
            closed.failed_in_a_row += 1
            if task.attempt < self.rule.retries:
                line.again.append(task)
            else:
                line.forget([task])
        closed.used, line.waiting = self._complete(task)
        return bool(closed.used) or closed.failed_in_a_row >= 2 * self.count

    def _complete(self, task: Task) -> tuple[list[Task], list[Task]]:
        """Return the replies that make an update, now that a task is over, and those that wait."""
        waiting = self.line.waiting
        if self.tiers is None:
            return (waiting, []) if len(waiting) >= self.algorithm.takes else ([], waiting)
        tier = self.tiers.of_client(task.client)
        if tier in self._working():
            return [], waiting
        tier_waiting = [w for w in waiting if self.tiers.of_client(w.client) == tier]
        return tier_waiting, [w for w in waiting if self.tiers.of_client(w.client) != tier]

    def _working(self) -> set[int]:
        """Return the tiers with unfinished tasks, or with retries at this moment."""
        assert self.tiers is not None
        rows = (*self.line.open.values(), *self.line.again)
        return {self.tiers.of_client(task.client) for task in rows}

    # -- dispatch --------------------------------------------------------------------------

    def _dispatch(self, selection: State, closed: FinishedTasks) -> bool:
        """Ask again, and fill the free places, as far as clients are there and idle.

        Returns whether the row is complete: a tier waited for a client alone that cannot be asked
        again. Then places stay free until the update is made.
        """
        line, missing = self.line, False
        for client in line.freed:  # mostly one: faster than an index of one
            self.busy[client] = False
        if line.again:
            self._ask_again()
        if self.tiers is not None and line.waiting:
            tier_of, working = self.tiers.of_client, self._working()
            alone = [task for task in line.waiting if tier_of(task.client) not in working]
            if alone:  # of a tier whose last client was not asked again
                closed.used, line.waiting = self._complete(alone[0])
                line.freed, self.wake_s = [], -math.inf
                return True
        for free, of_tier in self._free():
            ids = self._select(free, selection, of_tier)
            if len(ids):
                self._start(ids)
            missing |= len(ids) < free if of_tier is None else not len(ids)
        if isinstance(line.stages, Overlap):
            line.stages.send(line.now_s)
        self.wake_s = self._next_return() if missing else math.inf
        line.freed = []
        return False

    def _ask_again(self) -> None:
        """Start failed clients of this moment again if they are available and idle.

        They keep their places; what others could take is filled afterwards, at first by those who
        were only sending, since they had left theirs. They start from the newest version, or in a
        tier from that from which it has started.
        """
        failed, self.line.again = sorted(self.line.again, key=self._keeps), []
        tasks = Tasks.of(failed)
        present = self.population.available(tasks.client, self.line.now_s, self.line.serial + 1)
        present = self._charged(tasks.client, present & ~self.busy[tasks.client])
        present &= present.cumsum() <= self.count - self.line.taken
        if present.any():
            tasks = tasks.part(np.flatnonzero(present)[np.argsort(tasks.client[present])])
            versions = tasks.version.tolist() if self.together else ()
            self._start(tasks.client, (tasks.attempt + 1).tolist(), versions)
        self.line.forget(failed)

    def _keeps(self, task: Task) -> tuple[bool, int]:
        """Return the key by which failed tasks keep their places."""
        sent = isinstance(self.line.stages, Overlap) and math.isfinite(task.free_s)
        return sent, task.client

    def _free(self) -> Iterator[tuple[int, OfTier | None]]:
        """Yield the free places, and to which clients they belong; to any if None."""
        if self.tiers is None:
            if self.line.taken < self.count:
                yield self.count - self.line.taken, None
            return
        working = self._working()
        for tier, places in enumerate(self.tiers.places):
            if tier not in working:
                yield places, self.tiers.members(tier)

    def _select(self, free: int, selection: State, of_tier: OfTier | None) -> Ints:
        """Return the clients that start now (K,), ascending; refuse selections that ask."""
        rule = self.run.participation.select
        ids = rule.at_once(self._view(free, of_tier), selection)
        return ids[:free] if len(ids) < 2 else np.unique(ids)[:free]

    def _view(self, free: int, of_tier: OfTier | None) -> SelectionView:
        line, population, turn = self.line, self.population, self.line.serial + 1

        def available(ids: Ints) -> Bools:
            present = population.available(ids, line.now_s, turn) & ~self.busy[ids]
            present = self._charged(ids, present)
            return present if of_tier is None else present & of_tier(ids)

        idle = (~self.busy).nonzero()[0] if self.count == population.count else None
        return self.exchange.selection_view(turn, line.now_s, free, available, idle=idle)

    def _start(self, ids: Ints, attempts: Sequence[int] = (), versions: Sequence[int] = ()) -> None:
        """Dispatch clients (K,), for a first time and from the newest version unless it is said."""
        line, count = self.line, len(ids)
        draws = np.array([line.numbers.get(i, 0) + 1 for i in ids.tolist()])
        gone_s = self.exchange.clock.leaving(ids, line.now_s, line.serial + 1, known_available=True)
        weights = self.exchange.weights(ids)
        traffic = self.plain
        if traffic is None:
            since = np.array(versions) if versions else line.version
            traffic = self.exchange.traffic(self.asked, ids, self.channel, since)
        attempts, versions = attempts or [0] * count, versions or [line.version] * count
        make = self._known if self.undisturbed else self._timed
        tasks = make(ids, draws, gone_s, weights, attempts, versions, traffic)
        self.down_bytes += sum(task.down_bytes for task in tasks)
        line.begin(tasks)
        self.busy[ids] = True
        line.numbers |= zip(ids.tolist(), draws.tolist(), strict=True)

    def _known(
        self, ids: Ints, draws: Ints, gone_s: Floats, weights: Floats, attempts: Sequence[int],
        versions: Sequence[int], traffic: Traffic,
    ) -> list[Task]:  # fmt: skip
        """Return the tasks (K,) that start now, with known ends and without interruptions.

        That is mostly one: numbers are faster than arrays.
        """
        now_s, serial, limit_s = self.line.now_s, self.line.serial, self.line.now_s + self.timeout_s
        down, up = _each(traffic.down, len(ids)), _each(traffic.up, len(ids))
        tasks = []
        for k, row in enumerate(self.durations.rows(ids, draws, traffic, now_s)):
            steps, down_s, compute_s, up_s, _ = row.tolist()
            end_s, leaves_s = now_s + down_s + compute_s + up_s, float(gone_s[k])
            status, over_s = fate(end_s, leaves_s, limit_s)
            tasks.append(Task(
                over_s, int(ids[k]), serial + 1 + k, status, int(draws[k]), versions[k], 0,
                attempts[k], 1, int(steps), down[k], up[k], float(weights[k]), now_s, compute_s,
                end_s, end_s, leaves_s, limit_s,
            ))  # fmt: skip
        return tasks

    def _timed(
        self, ids: Ints, draws: Ints, gone_s: Floats, weights: Floats, attempts: Sequence[int],
        versions: Sequence[int], traffic: Traffic,
    ) -> list[Task]:  # fmt: skip
        """Return the tasks (K,) that begin now, put where their stages are."""
        line = self.line
        duration, lost = self.durations.of(ids, draws, traffic, line.now_s)
        now = np.full(len(ids), line.now_s)
        times = self.exchange.clock.alone(ids, duration, now, gone_s, lost)
        batteries = self.exchange.batteries
        if batteries is not None:
            levels = batteries.levels(self.batteries, ids, line.now_s)
            times = batteries.lasting(times, traffic, ids, levels)
        tasks = begun(
            ids, line.now_s, times, traffic, serial=line.serial, timeout_s=self.rule.timeout_s,
            ends_known=line.stages is None, draw=draws, version=np.array(versions),
            attempt=np.array(attempts), weight=weights,
        )  # fmt: skip
        if batteries is not None:
            batteries.began(self.batteries, tasks, levels)
        if line.stages is not None:
            line.stages.begin(line.now_s, tasks, times, self.population)
        return tasks.rows()

    def _next_return(self) -> float:
        """Return when the next idle client may come back.

        A search over all clients is repeated only after the wake that it found: until then only
        clients that have become idle since can come back.
        """
        line = self.line
        if self.wake_s > line.now_s and math.isfinite(self.wake_s):
            since = np.array(sorted(set(line.freed)), dtype=np.int64)
            since = since[~self.busy[since]]
            return min(self.wake_s, self._first_change(since))
        return self._first_change(np.flatnonzero(~self.busy))

    def _first_change(self, ids: Ints) -> float:
        """Return when the first of clients (K,) may come back."""
        now_s, batteries = self.line.now_s, self.exchange.batteries
        first = float(np.min(self.population.next_change(ids, now_s), initial=math.inf))
        if batteries is None:
            return first
        return min(first, batteries.return_s(self.batteries, ids, now_s))

    def _charged(self, ids: Ints, present: Bools) -> Bools:
        """Return which clients (K,) are present and have charge enough for a task."""
        batteries = self.exchange.batteries
        if batteries is None:
            return present
        return present & batteries.charged(self.batteries, ids, self.line.now_s)


def _each(sizes: int | Ints, count: int) -> list[int]:
    """Return the bytes of each of so many clients."""
    return [sizes] * count if isinstance(sizes, int) else sizes.tolist()
