"""Who starts when, from which version of the model, and whose reply arrives when.

Nothing here depends on a number that a client computes: delays, availability and keyed draws decide
it all. So the schedule of an update is known before anything of it is computed.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from rayfed.algorithms.asynchronous import Asynchronous
from rayfed.core.arrays import Bools, Floats, Ints
from rayfed.core.errors import RunFailed
from rayfed.engine.arrivals.durations import Durations
from rayfed.engine.arrivals.flight import Dispatch, Flight
from rayfed.engine.arrivals.lanes import Lanes, OfLane
from rayfed.engine.arrivals.overlap import Overlap
from rayfed.engine.exchange import Exchange
from rayfed.engine.run import Run
from rayfed.engine.state import DROPPED, LATE, USED
from rayfed.messages import Ask, State
from rayfed.selection import View as SelectionView

MOST_WAKES = 100_000
"""Changes of availability that the server waits for between two ends of works."""
Timed: TypeAlias = tuple[int, float, float, float, float]
"""Local steps of a work, its seconds of computing, when it would be done alone, when it is done as
far as that is known, and when its client leaves."""


@dataclass
class Closed:
    """What came to its end since the row before.

    Parameters
    ----------
    used : list of Dispatch
        The replies of the next update, in the order of their arrival; empty if there is none.
    failed : list of Dispatch
        The works that ended without a usable reply, in the order in which they were over.
    sent : int
        How many uploads have come, those that wait for an update and late ones included.
    """

    used: list[Dispatch] = field(default_factory=list)
    failed: list[Dispatch] = field(default_factory=list)
    sent: int = 0


class Schedule:
    """The events of one run.

    Parameters
    ----------
    run : Run
        What is run.
    exchange : Exchange
        Says how long work takes.
    ask : Ask
        What clients are asked; its model does not matter here.
    flight : Flight
        What is under way; it is changed in place.
    """

    def __init__(self, run: Run, exchange: Exchange, ask: Ask, flight: Flight) -> None:
        self.run, self.exchange, self.ask, self.flight = run, exchange, ask, flight
        algorithm = run.training.algorithm
        assert isinstance(algorithm, Asynchronous)
        self.algorithm, self.together = algorithm, algorithm.redispatch == "update"
        count = run.federation.population.count
        self.places = min(algorithm.concurrency or count, count)
        self.lanes = Lanes.of(algorithm, count, self.places) if self.together else None
        self.durations = Durations(exchange, ask)
        alone = flight.transfers is None and flight.overlap is None
        self.undisturbed = alone and not (exchange.clock.resume or self.durations.may_break)
        self.busy = np.zeros(count, dtype=np.bool_)
        self.busy[self._at_work()] = True
        self.wake_s = -math.inf  # unknown: it is looked for when a place stays free
        self.returned: list[int] = []
        self.cache: dict[str, Any] = {}

    def advance(self, selection: State) -> Closed:
        """Run the clock on until an update can be made, or a row is due without one.

        All that is over at one instant is handled, in the order of the clients' ids, before anybody
        is dispatched at that instant.

        Raises
        ------
        RunFailed
            If `MOST_WAKES` changes of availability brought nobody.
        """
        flight, closed, wakes = self.flight, Closed(), 0
        while True:
            if flight.transfers is not None and flight.transfers.next_s <= flight.now_s:
                wakes = 0
                flight.arrive(flight.transfers.advance(flight.now_s), USED)
            if flight.overlap is not None and flight.overlap.next_s <= flight.now_s:
                wakes = 0
                self._move_on(flight.overlap)
            while flight.queue and flight.queue[0].over_s <= flight.now_s:
                wakes = 0
                if self._end(heapq.heappop(flight.queue), closed):
                    return closed
            self._dispatch(selection)
            next_s = min(flight.queue[0].over_s if flight.queue else math.inf, self.wake_s)
            if flight.transfers is not None:
                next_s = min(next_s, flight.transfers.next_s)
            if flight.overlap is not None:
                next_s = min(next_s, flight.overlap.next_s)
            if math.isinf(next_s):
                flight.nobody = True
                return closed
            wakes += 1
            if wakes > MOST_WAKES:
                raise RunFailed(
                    f"after {MOST_WAKES:,} changes of availability, at {flight.now_s:.6g} s, "
                    "nobody is there to be asked; let clients be available more often"
                )
            flight.now_s = max(next_s, flight.now_s)

    def _end(self, work: Dispatch, closed: Closed) -> bool:
        """Note that a work is over; return whether the row is complete."""
        flight = self.flight
        if flight.overlap is None or flight.overlap.leave(work.client, work.serial):
            self.busy[work.client] = False
            self.returned.append(work.client)
        closed.sent += work.status != DROPPED
        if work.status == USED:
            flight.fruitless = 0
            flight.buffer.append(work)
        else:
            if flight.transfers is not None:
                flight.transfers.leave(flight.now_s, work.client)
            closed.failed.append(work)
            flight.forget([work])
            flight.fruitless += 1
        closed.used, flight.buffer = self._complete(work)
        if not closed.used and flight.fruitless < 2 * self.places:
            return False
        flight.fruitless = 0
        return True

    def _at_work(self) -> list[int]:
        """Return the clients that can begin nothing."""
        if self.flight.overlap is not None:
            return list(self.flight.overlap.computing)
        return [work.client for work in self.flight.queue]

    def _move_on(self, overlap: Overlap) -> None:
        """Let the replies arrive that are there now, and free the clients that go on."""
        arrived, free = overlap.advance(self.flight.now_s)
        self.flight.arrive(arrived, USED, by="serial")
        self.busy[free] = False
        self.returned += free

    def _complete(self, work: Dispatch) -> tuple[list[Dispatch], list[Dispatch]]:
        """Return the replies that make an update, now that a work is over, and those that wait."""
        waiting = self.flight.buffer
        if self.lanes is None:
            return (waiting, []) if len(waiting) >= self.algorithm.takes else ([], waiting)
        lane = self.lanes.of_client(work.client)
        if any(self.lanes.of_client(other.client) == lane for other in self.flight.queue):
            return [], waiting
        mine = [w for w in waiting if self.lanes.of_client(w.client) == lane]
        return mine, [w for w in waiting if self.lanes.of_client(w.client) != lane]

    # -- dispatch --------------------------------------------------------------------------

    def _dispatch(self, selection: State) -> None:
        """Fill the free places, as far as clients are there and idle."""
        missing = False
        for free, of_lane in self._free():
            ids = self._select(free, selection, of_lane)
            if len(ids):
                self._start(ids)
            missing |= len(ids) < free if of_lane is None else not len(ids)
        if self.flight.overlap is not None:
            self.flight.overlap.send(self.flight.now_s)
        self.wake_s = self._next_return() if missing else math.inf
        self.returned = []

    def _free(self) -> Iterator[tuple[int, OfLane | None]]:
        """Yield the free places, and to which clients they belong; to any if None."""
        if self.lanes is None:
            if self.flight.at_work < self.places:
                yield self.places - self.flight.at_work, None
            return
        working = {self.lanes.of_client(work.client) for work in self.flight.queue}
        for lane, places in enumerate(self.lanes.places):
            if lane not in working:
                yield places, self.lanes.members(lane)

    def _select(self, free: int, selection: State, of_lane: OfLane | None) -> Ints:
        """Return who starts now (K,), ascending; selections that ask or learn are refused."""
        rule = self.run.participation.selection
        ids = rule.at_once(self._view(free, of_lane), selection)
        return ids[:free] if len(ids) < 2 else np.unique(ids)[:free]

    def _view(self, free: int, of_lane: OfLane | None) -> SelectionView:
        flight, federation = self.flight, self.run.federation
        population, places = federation.population, self.places
        turn = flight.dispatched + 1

        def available(ids: Ints) -> Bools:
            there = population.available(ids, flight.now_s, turn) & ~self.busy[ids]
            return there if of_lane is None else there & of_lane(ids)

        return SelectionView(
            count=population.count, round=turn, time_s=flight.now_s, wanted=free,
            seed=self.run.seed, available=available, mass=federation.views.training.shards.mass,
            steps=self.exchange.budgets.reading, graphs=federation.graphs,
            idle=np.flatnonzero(~self.busy) if places == population.count else None,
            cache=self.cache,
        )  # fmt: skip

    def _start(self, ids: Ints) -> None:
        """Dispatch clients (K,) from the newest version."""
        flight, clock = self.flight, self.exchange.clock
        numbers = np.array([flight.numbers.get(i, 0) + 1 for i in ids.tolist()])
        gone_s = clock.leaving(ids, flight.now_s, flight.dispatched + 1, seen=True)
        for client, number, (n, compute_s, done_s, known_s, leaves_s) in zip(
            ids.tolist(), numbers.tolist(), self._timed(ids, numbers, gone_s), strict=True
        ):
            status, over_s = self._fate(known_s, leaves_s)
            work = Dispatch(
                flight.dispatched + 1, client, number, flight.version, n, status,
                flight.now_s, compute_s, done_s, over_s,
            )  # fmt: skip
            flight.begin(work)
            self.busy[client] = True
            heapq.heappush(flight.queue, work)

    def _timed(self, ids: Ints, numbers: Ints, gone_s: Floats) -> list[Timed]:
        """Return what the work that clients (K,) begin now takes each; see `Timed`."""
        flight, clock = self.flight, self.exchange.clock
        if self.undisturbed:  # mostly of one client: numbers are faster than arrays
            works = []
            for row, leaves_s in zip(
                self.durations.rows(ids, numbers), gone_s.tolist(), strict=True
            ):
                n, down_s, compute_s, up_s, _ = row.tolist()
                end_s = flight.now_s + down_s + compute_s + up_s
                works.append((int(n), compute_s, end_s, end_s, leaves_s))
            return works
        duration, lost = self.durations.of(ids, numbers)
        timing = clock.disturbed(ids, duration.timing(flight.now_s, gone_s), lost)
        end_s = timing.end_s
        if flight.transfers is not None:
            traffic, population = self.durations.traffic, self.run.federation.population
            flight.transfers.begin_all(
                flight.now_s, population, ids, timing.compute_s, traffic.down, traffic.up
            )
        if flight.overlap is not None:
            half = self.run.federation.population.half_duplex(ids)
            flight.overlap.begin(flight.now_s, flight.dispatched + 1, ids, half, duration)
        if flight.transfers is not None or flight.overlap is not None:
            end_s = np.full(len(ids), math.inf)  # until it is known, only what breaks it off is
        columns = (timing.steps, timing.compute_s, timing.end_s, end_s, timing.gone_s)
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def _fate(self, end_s: float, gone_s: float) -> tuple[int, float]:
        """Return what becomes of a work, and when it is over."""
        wait_s = self.run.participation.deadline_s
        over_s = min(end_s, gone_s)
        if wait_s is not None and over_s > self.flight.now_s + wait_s:
            return LATE, self.flight.now_s + wait_s
        return (DROPPED if gone_s < end_s else USED), over_s

    def _next_return(self) -> float:
        """Return when the next idle client may come back.

        A search over all clients is repeated only after the wake that it found: until then nobody
        comes back but those who have become idle since.
        """
        flight, population = self.flight, self.run.federation.population
        if self.wake_s > flight.now_s and math.isfinite(self.wake_s):
            since = np.array(sorted(set(self.returned)), dtype=np.int64)
            since = since[~self.busy[since]]
            changes = population.next_change(since, flight.now_s)
            return min(self.wake_s, float(np.min(changes, initial=math.inf)))
        idle = np.flatnonzero(~self.busy)
        return float(np.min(population.next_change(idle, flight.now_s), initial=math.inf))
