"""The exchange of one Ask: what it takes the clients, the request, the reply, and the counts.

It knows no loop. What a loop of rounds does in one go (`Exchange.answer`), one of single arrivals
does in parts: it times work when it is dispatched, asks for it when its model exists, and counts it
when it arrives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from rayfed.clients.request import Request
from rayfed.core.arrays import Array, Bools, Floats, Ints
from rayfed.core.errors import RunFailed
from rayfed.core.names import called
from rayfed.core.rng import Draw
from rayfed.engine.arrivals.replies import Part, reply_of_parts
from rayfed.engine.arrivals.transfers import Transfers
from rayfed.engine.attempts import Attempts, Others, Patience, Successors, Timer, attempts
from rayfed.engine.attempts_on_link import attempts_on_link
from rayfed.engine.budgets import Budgets
from rayfed.engine.clock import Clock, Timing, Traffic, settle
from rayfed.engine.correction import Correction
from rayfed.engine.drawn import Drawn
from rayfed.engine.link import Link
from rayfed.engine.replies import reply_of
from rayfed.engine.run import Run
from rayfed.engine.stale import arrived
from rayfed.engine.state import LATE, UNFINISHED, USED, RoundStats
from rayfed.executors.base import ClientFailed, Executor, Gathered
from rayfed.messages import Ask, Reply

Asker = Literal["algorithm", "selection"]


class NoReply(Exception):
    """No reply to an Ask can be used."""


class NobodyToAsk(NoReply):
    """There is no client to ask."""


@dataclass(frozen=True)
class Work:
    """The work that an Ask is for its clients, as known before anything is computed.

    Parameters
    ----------
    ask : Ask
    owner : "algorithm" or "selection"
        Who asks.
    clients : Drawn
        Whom.
    traffic : Traffic
        What travels.
    timing : Timing
        When they begin, when they are done, and when they leave.
    weights : (K,) array of float, optional
        Their raw weights in the mean; those of the run if None.
    number : (K,) array of int, optional
        Where the server may ask again, which attempt each is; clients may repeat then, in the order
        in which attempts begin.
    """

    ask: Ask
    owner: Asker
    clients: Drawn
    traffic: Traffic
    timing: Timing
    weights: Floats | None = None
    number: Ints | None = None

    def used(self, status: Ints) -> Ints:
        """Return the places of the replies that are used, in the order of their clients' ids."""
        places = np.flatnonzero(status == USED)
        return places if self.number is None else places[np.argsort(self.clients.ids[places])]


class Exchange:
    """Answers the Asks of one run.

    Parameters
    ----------
    run : Run
        What is run.
    executor : Executor
        Where the clients live; the run is open there under its folder's name.
    """

    def __init__(self, run: Run, executor: Executor) -> None:
        self.run, self.executor = run, executor
        self.budgets = Budgets.of(run)
        self.clock = Clock.of(run, self.budgets)
        self.shards, self.growth = run.federation.views.training.shards, 1.0
        self.correction = Correction(run)
        self.listens = run.participation.selection.listens or self.budgets.listens
        owners: Mapping[Asker, Any]
        owners = {"algorithm": run.training.algorithm, "selection": run.participation.selection}
        self.owners = owners

    def look_at(self, round_number: int) -> bool:
        """See the rows of clients as they are in a round; return whether they have changed."""
        view = self.run.federation.views.training.at(round_number)
        shards, self.growth = view.shards, view.objective.growth
        changed = shards.version != self.shards.version
        self.shards = self.budgets.shards = self.clock.shards = self.correction.shards = shards
        return changed

    def answer(
        self,
        ask: Ask,
        owner: Asker,
        drawn: Ints,
        stats: RoundStats,
        first: int | None = None,
        others: Others | None = None,
    ) -> Reply:
        """Answer an Ask of a round, whose clock moves on to when the server stops waiting.

        Parameters
        ----------
        ask : Ask
        owner : "algorithm" or "selection"
            Who asks.
        drawn : (K,) array of int
            The clients, in any order; repeats count.
        stats : RoundStats
            The round, to which the exchange is added.
        first : int, optional
            How many replies the server waits for; all of them if None.
        others : callable, optional
            Selects clients in the place of those that fail; the same are asked again if None.

        Raises
        ------
        NoReply
            If no reply can be used; it is counted all the same.
        NobodyToAsk
            If no clients are drawn.
        RunFailed
            If the Ask is not allowed, or a client half raises.
        """
        self._check(ask, owner)
        clients = Drawn.of(drawn)
        if not len(clients.ids):
            raise NobodyToAsk
        work, status, close_s = self._begun(ask, owner, clients, stats, first, others)
        clients, timing, used = work.clients, work.timing, work.used(status)
        fresh = self._used(work, used, stats)
        stays = stats.pending is not None and owner == "algorithm" and ask.local
        over = status != LATE if stays else None
        self.count(work, status, fresh, stats, over)
        parts = arrived(self, work, stats, close_s) if stays else []
        if stats.pending is not None:
            assert work.weights is not None
            goes_on = np.zeros(len(status), dtype=np.bool_) if over is None else ~over
            stats.pending = stats.pending.plus(work, work.weights, goes_on, stats.round, stats.ask)
        if timing.free_s is not None:
            stats.ahead = {"clients": clients.ids[used], "free_s": timing.free_s[used]}
        stats.answered = clients.ids[used].repeat(clients.counts[used])
        stats.time_s = close_s
        stats.ask += 1 if work.number is None else 1 + int(work.number.max())
        reply = self._reply(fresh, parts, stats)
        if self.listened(ask, owner):
            own = [] if fresh is None else [self._told(fresh) if parts else reply]
            stats.heard += [*map(self._told, parts), *own]
        return reply

    def _begun(
        self, ask: Ask, owner: Asker, clients: Drawn, stats: RoundStats, first: int | None,
        others: Others | None,
    ) -> tuple[Work, Ints, float]:  # fmt: skip
        """Return the work of an Ask, what becomes of it, and when the server stops waiting."""
        traffic, participation = self.traffic(ask, owner), self.run.participation
        wait_s = participation.deadline_s
        deadline_s = None if wait_s is None else stats.start_s + wait_s
        fit_s = deadline_s if participation.late == "partial" else None
        asked = clients.ids

        def timer(ids: Ints, now_s: float, number: int) -> Timing:
            begun, of_these = stats, ask
            if number or now_s != stats.time_s:
                begun = replace(stats, time_s=now_s, ask=stats.ask + number)
            if number and isinstance(ask.cost, np.ndarray):
                of_these = replace(ask, cost=ask.cost[np.searchsorted(asked, ids)])
            time = self.clock.alone if participation.asks_again else self.clock.timing
            return time(of_these, traffic, begun, ids, fit_s)

        def successors(failed: Drawn, now_s: float, asked: Ints) -> Drawn:
            if others is not None:
                return others(int(failed.counts.sum()), now_s, asked)
            population = self.run.federation.population
            return failed.part(population.available(failed.ids, now_s, stats.round))

        corrected = stats.corrected if owner == "algorithm" else None
        if participation.asks_again:
            patience = Patience.of(participation, first, deadline_s)
            made, close_s = self._attempts(clients, stats, patience, timer, successors, traffic)
            if corrected is not None:
                corrected = corrected[np.searchsorted(clients.ids, made.clients.ids)]
            clients, timing, status, number = made.clients, made.timing, made.status, made.number
        else:
            timing, number = timer(clients.ids, stats.time_s, 0), None
            status, close_s = settle(
                clients.ids, timing, stats.time_s, first=first, deadline_s=deadline_s
            )
        weights = clients.counts * self.weights(clients.ids) if corrected is None else corrected
        return Work(ask, owner, clients, traffic, timing, weights, number), status, close_s

    def _attempts(
        self, clients: Drawn, stats: RoundStats, patience: Patience, timer: Timer,
        successors: Successors, traffic: Traffic,
    ) -> tuple[Attempts, float]:  # fmt: skip
        """Return the attempts at an Ask, and when the server stops waiting."""
        server, population = self.clock.server, self.run.federation.population
        if not server.limited:
            return attempts(clients, stats.time_s, patience, timer, successors)
        transfers = Transfers(*map(Link, server.capacities))

        def begin(now_s: float, ids: Ints, compute_s: Floats) -> None:
            transfers.begin_all(now_s, population, ids, compute_s, traffic.down, traffic.up)

        return attempts_on_link(
            clients, stats.time_s, patience, timer, successors, transfers, begin
        )

    def _used(self, work: Work, used: Ints, stats: RoundStats) -> Part | None:
        """Return the replies at some places of a work, computed now; None without any."""
        if not len(used):
            return None
        request = self.request(
            work, round_number=stats.round, draw=stats.round, ask_number=stats.ask
        )
        if len(used) < len(work.clients.ids) or work.number is not None:
            request = request.part(used)
        when = f"round {stats.round}, time {stats.time_s:.6g} s"
        gathered = self.compute(request, work.ask.send, when)
        now = np.zeros(len(request.ids), dtype=np.int64)
        seconds = (work.timing.end_s - work.timing.start_s)[used]
        weights = request.weights
        return Part(request.ids, request.steps, now, weights, weights, gathered, seconds, request)

    def _reply(self, fresh: Part | None, late: list[Part], stats: RoundStats) -> Reply:
        """Return the reply to an Ask: of its own clients, and of those that began earlier.

        Raises
        ------
        NoReply
            If there is none.
        """
        count = self.run.federation.population.count
        parts = [*([] if fresh is None else [fresh]), *late]
        if not parts:
            raise NoReply
        if stats.pending is not None:
            stats.staleness = np.concatenate([part.staleness for part in parts])
        if late:
            request = parts[0].request
            assert request is not None  # that of a round's work always is there
            return reply_of_parts(parts, request.up, count, stats.round, {})
        total = None if stats.corrected is None else self.correction.total
        assert fresh is not None
        assert fresh.request is not None
        reply = reply_of(fresh.request, fresh.gathered, count, total, fresh.seconds)
        return reply if self.growth == 1.0 else replace(reply, growth=self.growth)

    def _told(self, part: Part) -> Reply:
        """Return the scalars of some replies, for those that learn from losses."""
        request, each = part.request, part.gathered.each
        assert request is not None
        count = self.run.federation.population.count
        return Reply(
            request.ids, request.weights, {}, each, request.steps, count,
            round=request.round, staleness=part.staleness, seconds=part.seconds,
        )  # fmt: skip

    def request(self, work: Work, *, round_number: int, draw: Draw, ask_number: int = 0) -> Request:
        """Return work as hosts get it.

        Parameters
        ----------
        work : Work
        round_number : int
            The round that schedules go by.
        draw : int or (K,) array of int
            Coordinate of keyed draws: the round, or the number of each client's work.
        ask_number : int
            Number of the Ask within the round.
        """
        federation, ask, clients = self.run.federation, work.ask, work.clients
        weights = work.weights
        if weights is None:
            weights = clients.counts * self.weights(clients.ids)
        return Request(
            work.owner, ask.work, ask.up, clients.ids, weights, work.timing.steps,
            federation.population.group_of(clients.ids), round_number, ask_number,
            vectors=ask.vectors, sleep_s=self.sleep_s(work.timing), plain=ask.plain, draw=draw,
        )  # fmt: skip

    def weights(self, ids: Ints) -> Floats:
        """Return the raw weights (K,) of clients that are drawn once."""
        return self.shards.mass(ids) if self.run.training.weights == "size" else np.ones(len(ids))

    def compute(self, request: Request, send: Mapping[str, Array], when: str) -> Gathered:
        """Run the client halves of a request.

        Raises
        ------
        RunFailed
            If a client half raises; `when` says in which round and at what time.
        """
        try:
            return self.executor.exchange(self.run.folder, request, send)
        except ClientFailed as failed:
            pooled = self.run.training.algorithm.pooled
            names = () if pooled else self.run.federation.clients.names
            who = f"{when}, {called(np.array([failed.client]), names)}, '{request.work}'"
            raise RunFailed(f"{who} failed: {failed.reason}", failed.trace) from failed

    def listened(self, ask: Ask, owner: Asker) -> bool:
        """Whether anything learns from the losses of an Ask's local steps."""
        return self.listens and owner == "algorithm" and ask.local

    def traffic(self, ask: Ask, owner: Asker) -> Traffic:
        """Return the bytes that each client downloads and uploads."""
        if self.run.training.algorithm.pooled:
            return Traffic(0, 0)
        up = ask.bytes_up(self.run.training.dtype.itemsize)
        return Traffic(ask.bytes_down, up + 8 * self.listened(ask, owner))

    def count(
        self,
        work: Work,
        status: Array,
        part: Part | None,
        stats: RoundStats,
        over: Bools | None = None,
    ) -> None:
        """Add work to the counts and the events of a round.

        Parameters
        ----------
        work : Work
        status : (K,) array of int
            What became of it at each client: `USED`, `LATE` or `DROPPED`.
        part : Part, optional
            The replies of the clients whose work was used; None without any.
        stats : RoundStats
        over : (K,) array of bool, optional
            Whose work is over; that of the others is counted in a later round. All if None.
        """
        ids, timing = work.clients.ids, work.timing
        places = work.used(status)
        all_used = work.number is None and len(places) == len(ids)
        used = slice(None) if all_used else places
        answered, late, dropped = np.bincount(
            status if over is None else status[over], minlength=UNFINISHED
        ).tolist()
        counts = stats.counts
        if work.owner == "algorithm" and work.ask.clients is None:
            counts["participants"] = answered
        counts["late"] += late
        counts["dropped"] += dropped
        counts["bytes_down"] += work.traffic.down * len(ids)
        counts["bytes_up"] += work.traffic.up * (answered + late)
        counts["bytes_wasted"] += work.traffic.down * (late + dropped) + work.traffic.up * late
        counts["local_steps"] += int(timing.steps[used].sum())
        loss = np.empty(len(ids))
        loss.fill(np.nan)
        if part is not None and "loss" in part.gathered.each:
            loss[used] = part.gathered.each["loss"]
        events = {
            "round": np.full(len(ids), stats.round),
            "ask": np.full(len(ids), stats.ask) + (0 if work.number is None else work.number),
            "client": ids,
            "start_s": np.full(len(ids), timing.start_s),
            "compute_s": timing.compute_s,
            "end_s": np.minimum(timing.end_s, timing.gone_s),
            "status": status,
            "loss": loss,
            "steps": timing.steps,
        }
        if self.run.participation.selection.repeats:
            events["draws"] = work.clients.counts
        if stats.pending is not None:
            events["version"] = np.full(len(ids), stats.round - 1)
            events["staleness"] = np.where(status == USED, 0, -1)
        if over is not None:
            events = {name: column[over] for name, column in events.items()}
        stats.events.append(events)

    def sleep_s(self, timing: Timing) -> Floats | None:
        """Return how long the actors sleep under ``clock: wall``; it decides nothing."""
        if self.run.wall_scale is None:
            return None
        return (timing.end_s - timing.start_s) * self.run.wall_scale

    def _check(self, ask: Ask, owner: Asker) -> None:
        """Refuse an Ask for a client half that does not exist, or for vectors it may not see."""
        asker = self.owners[owner]
        if not callable(getattr(asker, ask.work, None)):
            raise RunFailed(
                f"{type(asker).__name__} has no method '{ask.work}', which its Ask names"
            )
        if ask.vectors and not (owner == "algorithm" and asker.sees_vectors):
            raise RunFailed(f"'{ask.work}' asks for vectors; declare `sees_vectors`")
