"""The loop of an asynchronous run: a row for every update of the model."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rayfed.algorithms.asynchronous import Asynchronous
from rayfed.clients.request import Request
from rayfed.core.arrays import Array, Floats, Ints
from rayfed.engine.arrivals.events import events_of
from rayfed.engine.arrivals.flight import Dispatch, Flight, Send, columns_of
from rayfed.engine.arrivals.overlap import Overlap
from rayfed.engine.arrivals.replies import Part, reply_of_parts
from rayfed.engine.arrivals.schedule import Closed, Schedule
from rayfed.engine.arrivals.transfers import Transfers
from rayfed.engine.clock import Timing
from rayfed.engine.drawn import Drawn
from rayfed.engine.exchange import Work
from rayfed.engine.link import Link
from rayfed.engine.loop import Loop
from rayfed.engine.run import Run
from rayfed.engine.state import DROPPED, LATE, USED, RoundStats, RunState
from rayfed.executors.base import Executor, Gathered, WorksAhead
from rayfed.executors.profile import Profile
from rayfed.messages import Reply

_AHEAD = 2**26
"""Bytes of vectors that are computed before they are needed."""
_ASKED = ("client", "number", "version", "steps", "start_s", "compute_s", "end_s")
"""What a request is made of; see `Dispatch`."""


class ArrivalLoop(Loop):
    """Runs one run of an asynchronous algorithm, update by update.

    A row of ``rounds`` is an update of the model. A row is also closed, with the model unchanged,
    when so many works in a row have ended without a usable reply as twice the clients that are at
    work at a time.

    What a client computes depends on the model, the client and the number of its work alone. So
    replies of which the server sees single vectors are computed for all who are at work at once,
    when the first of them is needed. State that clients keep is written when it is computed; so
    where there is any, a reply is computed when it enters an update, and not before.

    Parameters
    ----------
    run : Run
        What to run.
    executor : Executor
        Where the clients live; the run is open there under its folder's name.
    """

    def __init__(self, run: Run, executor: Executor) -> None:
        super().__init__(run, executor)
        algorithm = run.training.algorithm
        assert isinstance(algorithm, Asynchronous)
        self.algorithm = algorithm
        self.schedule: Schedule | None = None
        self.ahead: dict[int, dict[str, Array]] = {}
        self.by_version = any(solver.scheduled for solver in run.training.solvers)
        self.keeps_state = bool(algorithm.client_state(run.training.x0))
        self.works_ahead = False
        self.begun = 0  # works up to this number were looked at by `_work_ahead`

    def first(self) -> RunState:
        """Return the state before anything is dispatched."""
        first, flight = super().first(), Flight()
        server = self.run.federation.server
        if server.limited:
            flight.transfers = Transfers(*map(Link, server.capacities))
        if self.algorithm.overlap:
            flight.overlap = Overlap()
        flight.models[0] = self.algorithm.ask(first.state).send
        return replace(first, flight=flight)

    def _round(
        self, before: RunState, stats: RoundStats
    ) -> tuple[RunState, dict[str, float], bool]:
        """Make an update, or close a row without one."""
        assert before.flight is not None
        begun = before.flight.dispatched
        schedule, closed = self._advance(before)
        flight, state = schedule.flight, before.state
        stats.time_s = flight.now_s
        self._work_ahead(schedule, stats)
        values: dict[str, float] = {}
        losses: dict[int, float] = {}
        if closed.used:
            reply, losses = self._reply(closed.used, flight, stats)
            returned = self.algorithm.arrival(state, reply)
            state, diagnostics = self.server_half.result(returned, state, stats.round)
            values |= diagnostics
            late = reply.staleness.tolist()
            values["staleness_mean"] = sum(late) / len(late)
            values["staleness_max"] = float(max(late))
        self._count(closed, schedule, losses, stats, asked=flight.dispatched - begun)
        if closed.used:
            flight.forget(closed.used)
            flight.update(self.algorithm.ask(state).send)
        values["in_flight"] = float(len(flight.queue))
        after = self._after(before, stats, state, before.selection, before.lengths)
        return after, values, bool(closed.used)

    def profile(self, profile: Profile) -> None:
        """Measure the steps of rounds from now on; selection is part of the clock."""
        super().profile(profile)
        for method in ("_advance", "_count"):
            profile.watch(self, method, "clock")
        profile.watch(self, "_reply", "adding up")

    def _advance(self, before: RunState) -> tuple[Schedule, Closed]:
        """Run the clock on to the next row, and return it and what it brought."""
        schedule = self._schedule(before)
        return schedule, schedule.advance(before.selection)

    def _schedule(self, before: RunState) -> Schedule:
        """Return the schedule that goes on from a state."""
        flight = before.flight
        assert flight is not None  # `first` made it, or a checkpoint held it
        if self.schedule is None or self.schedule.flight is not flight:
            ask = self.algorithm.ask(before.state)
            self.schedule, self.ahead = Schedule(self.run, self.exchange, ask, flight), {}
            self.begun = 0
            self.works_ahead = (
                isinstance(self.executor, WorksAhead)
                and self.executor.works_ahead
                and not (ask.vectors or self.keeps_state)
                and self.run.wall_scale is None
                and self.schedule.places * self.schedule.durations.traffic.up <= _AHEAD
            )
        return self.schedule

    def _work_ahead(self, schedule: Schedule, stats: RoundStats) -> None:
        """Let hosts begin the works that are under way since the last update, and will be used.

        Each is asked for again when it enters an update; see `WorksAhead`.
        """
        executor, run, flight = self.executor, self.run, schedule.flight
        if not (self.works_ahead and isinstance(executor, WorksAhead)):
            return
        under_way = (*flight.buffer, *flight.queue)
        works = [w for w in under_way if w.serial > self.begun and w.status == USED]
        self.begun = flight.dispatched
        left = (run.ending.rounds - stats.round) * self.algorithm.takes
        for part in self._by_part(heapq.nsmallest(left, works)):
            request, send = self._request(part, flight)
            executor.prepare(run.folder, replace(request, serials=_serials(part)), send)

    # -- replies ---------------------------------------------------------------------------

    def _reply(
        self, used: Sequence[Dispatch], flight: Flight, stats: RoundStats
    ) -> tuple[Reply, dict[int, float]]:
        """Return the reply of an update, and the losses of its works by serial number."""
        assert self.schedule is not None
        parts: list[Part] = []
        losses: dict[int, float] = {}
        for works in self._by_part(used):
            ids = np.array([work.client for work in works])
            steps = np.array([work.steps for work in works])
            staleness = np.array([flight.version - work.version for work in works])
            raw = self.exchange.weights(ids)
            weights = raw * self.algorithm.discount(staleness)
            if self.schedule.ask.vectors:
                gathered = self._vectors(works, flight, weights, stats)
            else:
                request, send = self._request(works, flight)
                numbers = _serials(works) if self.works_ahead else None
                request = replace(request, weights=weights, serials=numbers)
                gathered = self._compute(request, send, stats)
            parts.append(Part(ids, steps, staleness, raw, weights, gathered))
            if "loss" in gathered.each:
                serials = (work.serial for work in works)
                losses |= dict(zip(serials, gathered.each["loss"].tolist(), strict=True))
        population = self.run.federation.population.count
        together = len({work.version for work in used}) == 1
        sent = flight.models[used[0].version] if together else {}
        up = self.schedule.ask.up
        return reply_of_parts(parts, up, population, flight.version + 1, sent), losses

    def _by_part(self, works: Sequence[Dispatch]) -> list[list[Dispatch]]:
        """Divide works so that no part has a client twice, nor two versions if schedules matter.

        Parts are ordered by how often a client has been in the parts before, then by version;
        within a part clients are in the order of their ids.
        """
        if len(works) == 1:
            return [list(works)]
        seen: dict[int, int] = {}
        parts: dict[tuple[int, int], list[Dispatch]] = {}
        for work in works:
            again = seen[work.client] = seen.get(work.client, -1) + 1
            version = work.version if self.by_version else 0
            parts.setdefault((again, version), []).append(work)
        return [sorted(parts[key], key=lambda work: work.client) for key in sorted(parts)]

    def _request(self, works: Sequence[Dispatch], flight: Flight) -> tuple[Request, Send]:
        """Return the request for works of distinct clients, ascending, and what they download."""
        assert self.schedule is not None
        columns = columns_of(works, _ASKED)
        never = np.full(len(works), np.inf)
        timing = Timing(
            columns["start_s"], columns["steps"], columns["compute_s"], columns["end_s"], never
        )
        ones = np.ones(len(works), dtype=np.int64)
        clients = Drawn(columns["client"], ones)
        schedule = self.schedule
        work = Work(schedule.ask, "algorithm", clients, schedule.durations.traffic, timing)
        of_each = columns["version"].tolist()
        versions = sorted(set(of_each))
        request = self.exchange.request(work, round_number=versions[0] + 1, draw=columns["number"])
        if len(versions) == 1:
            return request, flight.models[versions[0]]
        models = [flight.models[version] for version in versions]
        send = {name: np.stack([model[name] for model in models]) for name in models[0]}
        return replace(request, rows=np.searchsorted(versions, of_each)), send

    def _compute(self, request: Request, send: Send, stats: RoundStats) -> Gathered:
        when = f"round {stats.round}, time {stats.time_s:.6g} s"
        return self.exchange.compute(request, send, when)

    def _vectors(
        self, works: Sequence[Dispatch], flight: Flight, weights: Floats, stats: RoundStats
    ) -> Gathered:
        """Return the single replies of works, computed with those of others that are at work."""
        if any(work.serial not in self.ahead for work in works):
            self._compute_ahead(works, flight, stats)
        rows = [self.ahead.pop(work.serial) for work in works]
        if len(rows) == 1:
            each = {name: np.asarray(row)[None] for name, row in rows[0].items()}
        else:
            each = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
        sums = {}
        for name, stack in each.items():
            if stack.ndim > 1:
                sums[name] = (stack * weights.astype(stack.dtype)[:, None]).sum(axis=0)
        return Gathered(sums, each)

    def _compute_ahead(self, works: Sequence[Dispatch], flight: Flight, stats: RoundStats) -> None:
        """Compute works, and, if clients keep no state, others at work that will be used soon."""
        vector = sum(array.nbytes for array in flight.models[flight.version].values())
        most = max(len(works), _AHEAD // max(vector, 1))
        clients = {work.client for work in works}
        wanted = [work for work in works if work.serial not in self.ahead]
        soon = flight.queue if most >= len(flight.queue) else heapq.nsmallest(most, flight.queue)
        for work in () if self.keeps_state else soon:
            fresh = work.serial not in self.ahead and work.client not in clients
            if work.status == USED and fresh and len(self.ahead) + len(wanted) < most:
                wanted.append(work)
        for part in self._by_part(wanted):
            request, send = self._request(part, flight)
            each = self._compute(replace(request, sums=False), send, stats).each
            for k, work in enumerate(part):
                self.ahead[work.serial] = {name: rows[k] for name, rows in each.items()}

    # -- counts ----------------------------------------------------------------------------

    def _count(
        self, closed: Closed, schedule: Schedule, losses: dict[int, float], stats: RoundStats,
        asked: int,
    ) -> None:  # fmt: skip
        """Add what began and ended since the row before to the counts and the events of a row."""
        traffic, counts = schedule.durations.traffic, stats.counts
        counts["bytes_down"] = traffic.down * asked
        counts["bytes_up"] = traffic.up * closed.sent
        works = sorted([*closed.used, *closed.failed])
        if not works:
            return
        statuses = [work.status for work in works]
        counts["participants"] = statuses.count(USED)
        counts["late"] = statuses.count(LATE)
        counts["dropped"] = statuses.count(DROPPED)
        vain = traffic.down * len(closed.failed) + traffic.up * counts["late"]
        counts["bytes_wasted"] = vain
        counts["local_steps"] = sum(work.steps for work in closed.used)
        version = schedule.flight.version
        staleness = [version - work.version if work.status == USED else -1 for work in works]
        stats.events.append(events_of(works, stats.round, np.array(staleness), losses))


def _serials(works: Sequence[Dispatch]) -> Ints:
    """Return the numbers (K,) of works in the run."""
    return np.array([work.serial for work in works])
