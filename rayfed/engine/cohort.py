"""The cohorts of rounds: one begins, and the server stops waiting for it.

It waits until all tasks are over, for the first replies of an over-selected cohort, or until a
deadline; a task that fails may be begun again before. What is under way then is broken off, or left
to enter a later round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple, TypeAlias

import numpy as np

from rayfed.core.arrays import Bools, Ints
from rayfed.engine.clock import Times
from rayfed.engine.exchange import Asker, Exchange, NobodyToAsk, SentAsk
from rayfed.engine.replies import TaskAnswer
from rayfed.engine.run import Run
from rayfed.engine.stages import Transfers
from rayfed.engine.state import RoundStats
from rayfed.engine.tasks import USED, CountedTasks, Task, Tasks, distinct
from rayfed.engine.timeline import Timeline, begun, continuing, settled, unopened
from rayfed.messages import Ask, Reply

Others: TypeAlias = Callable[[int, float, Ints], Ints]
"""``others(count, now_s, asked)`` draws so many clients that have not been asked."""
Begin: TypeAlias = Callable[[Ints, Ints, int], list[Task]]
"""``begin(ids, drawn, attempt)``: clients (K,) begin on the timeline; it returns their tasks."""
Successors: TypeAlias = Callable[[Tasks, float, Ints], tuple[Ints, Ints]]
"""``successors(failed, now_s, asked)``: clients that replace those of failed tasks."""
_BY_ATTEMPT = attrgetter("attempt", "client")


class Cohort(NamedTuple):
    """The cohort of a round and the server's waiting rules.

    Parameters
    ----------
    asked : Asked
    ids, drawn : (K,) array of int
        Distinct clients, ascending, and how often each was drawn.
    stats : RoundStats
        The round.
    first : int, optional
        The number of replies after which the server stops waiting.
    others : callable, optional
        Selects clients in the place of those that fail; the same are asked again if None.
    """

    asked: SentAsk
    ids: Ints
    drawn: Ints
    stats: RoundStats
    first: int | None = None
    others: Others | None = None


@dataclass
class Waiting:
    """A server that waits for tasks of one Ask, moment by moment.

    Parameters
    ----------
    line : Timeline
        It may hold tasks of earlier rounds, too.
    first : int, optional
        The number of replies after which it stops waiting.
    deadline_s : float
        The time until which it waits at most.
    attempts : dict of int to Task
        The tasks of the Ask.
    left, answered : int
        How many of them are under way, and how many replies are there.
    """

    line: Timeline
    first: int | None
    deadline_s: float
    attempts: dict[int, Task] = field(default_factory=dict)
    left: int = 0
    answered: int = 0

    @property
    def enough(self) -> bool:
        """Whether the replies are there that it waits for."""
        return self.first is not None and self.answered >= self.first

    @property
    def ongoing(self) -> bool:
        """Whether it waits for anything that comes in time."""
        return self.left > 0 and not self.enough and self.line.next_s <= self.deadline_s

    def run(
        self, ids: Ints, drawn: Ints, begin: Begin, successors: Successors, retries: int
    ) -> None:
        """Start clients (K,) and wait; failed tasks start again up to a maximum number of retries.

        At the moment of a failure another attempt begins in its place, unless it was the last or
        the server has stopped waiting.
        """
        self._begin(begin(ids, drawn, 0))
        while self.ongoing:
            again = sorted((w for w in self._failed() if w.attempt < retries), key=_BY_ATTEMPT)
            for attempt, group in groupby(again, attrgetter("attempt")):
                asked = np.array([task.client for task in self.attempts.values()])
                others, often = successors(Tasks.of(group), self.line.now_s, asked)
                if len(others):
                    self._begin(begin(others, often, attempt + 1))

    def tasks(self) -> Tasks:
        """Return all attempts in the order of their beginnings, then of numbers and clients."""
        tasks = Tasks.of(self.attempts.values())
        return tasks.part(np.lexsort((tasks.client, tasks.attempt, tasks.start_s)))

    def break_off(self) -> None:
        """Stop all unfinished tasks.

        Its recorded end is the time at which it would have finished without further requests.
        """
        line, attempts = self.line, self.attempts
        unfinished = [task for task in attempts.values() if task.serial in line.open]
        if line.stages is not None and unfinished:
            rest = line.copy().all_over(math.inf)
            attempts |= {task.serial: task for task in rest if task.serial in attempts}
        line.break_off(unfinished)
        line.forget(attempts.values())

    def _begin(self, rows: list[Task]) -> None:
        self.attempts |= {task.serial: task for task in rows}
        self.left += len(rows)

    def _failed(self) -> list[Task]:
        """Advance to the next event and return the failed tasks that may be retried."""
        line = self.line
        failed: list[Task] = []
        line.advance(max(line.next_s, line.now_s))
        while (task := line.over()) is not None:
            if task.serial not in self.attempts:
                line.waiting.append(task)
                continue
            self.attempts[task.serial] = task
            self.left -= 1
            self.answered += task.status == USED
            if task.status != USED:
                failed.append(task)
        return failed if not self.enough and line.now_s < self.deadline_s else []


class Cohorts:
    """Answers the Asks of rounds.

    Parameters
    ----------
    run : Run
    exchange : Exchange
    """

    def __init__(self, run: Run, exchange: Exchange) -> None:
        self.run, self.exchange = run, exchange
        self.rule, self.server = run.participation, run.federation.server
        self.population = run.federation.population
        self.known = not (self.rule.retries or self.server.limited)  # all ends, when tasks begin

    def timeline(self, known: Timeline | None = None) -> Timeline:
        """Return an empty timeline, or one of tasks with known ends."""
        population = self.population if self.rule.interrupted == "resume" else None
        if known is None:
            limited = self.server.limited
            return Timeline(Transfers.by(self.server, population) if limited else None)
        if isinstance(known.stages, Transfers):
            known.stages.population = population
        return known.copy()

    def catch_up(self, stats: RoundStats) -> None:
        """Let tasks of earlier rounds end until now; they wait for the end of the round."""
        if stats.timeline is not None:
            stats.timeline.waiting += stats.timeline.all_over(stats.time_s)

    def answer(
        self,
        ask: Ask,
        owner: Asker,
        drawn: Ints,
        stats: RoundStats,
        first: int | None = None,
        others: Others | None = None,
    ) -> Reply:
        """Answer an Ask of a round and advance the clock to the end of the server's wait.

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
            If the Ask is not allowed, or a client function raises.
        """
        self.exchange.check(ask, owner)
        ids, often = distinct(drawn)
        newest = stats.round - 1
        if not len(ids):
            if not self.exchange.noise_alone(owner):
                raise NobodyToAsk
            stats.ask += 1
            return self.exchange.reply(SentAsk(ask, owner), [], stats, newest, stale=False)
        asked = self.exchange.sent(ask, owner, stats)
        stays = stats.timeline is not None and owner == "algorithm" and ask.local
        cohort = Cohort(asked, ids, often, stats, first, others)
        if ask.edge_of is None:
            known, status, close_s, ongoing = self._waited(cohort, stays)
        else:
            known, status, close_s, ongoing = self._waited_at_edges(cohort, ask.edge_of(ids))
        asked = self.exchange.grouped(asked, known.client, stats)
        tasks, numbers = self._opened(asked, ids, known, status), stats.ask + known.attempt
        number = int(numbers.max()) + 1
        used = tasks.used()
        late = self._late(stats, close_s) if stays else None
        old, fresh = self._computed(asked, late, tasks, used, stats)
        self._count(asked, tasks, numbers, ongoing, (used, fresh), stats)
        if late is not None:
            self._count_late(late, old, number, stats)
        if ongoing is not None:
            self._keep_ongoing(known, ongoing, stats, asked.ask)
        if ask.overlap:
            stats.ahead = {"clients": tasks.client[used], "free_s": tasks.free_s[used]}
        stats.answered = tasks.client[used].repeat(tasks.drawn[used])
        stats.time_s, stats.ask = close_s, number
        answers = [*([] if fresh is None else [fresh]), *old]
        if stats.timeline is not None and answers:
            stats.staleness = np.concatenate([answer.staleness for answer in answers])
        reply = self.exchange.reply(asked, answers, stats, newest, stale=bool(old))
        if self.exchange.listened(ask, owner):
            count = self.population.count
            own = [] if fresh is None else [fresh.scalars(count) if old else reply]
            stats.replies += [*(answer.scalars(count) for answer in old), *own]
        return reply

    def _opened(self, asked: SentAsk, ids: Ints, tasks: Tasks, status: Ints) -> Tasks:
        """Return tasks with their fates, including tasks lost in secure sums."""
        if asked.coded and self.exchange.channel.secure is not None:
            replied = np.flatnonzero(status == USED)
            lost = self.exchange.lost(asked, ids, tasks.client[replied])
            status = unopened(status, replied[lost])
        return tasks.with_status(status)

    def _computed(
        self, asked: SentAsk, late: Tasks | None, tasks: Tasks, used: Ints, stats: RoundStats
    ) -> tuple[list[TaskAnswer], TaskAnswer | None]:
        """Compute the late tasks that are used, and the tasks at these places.

        Late ones come first, in the order of their rounds: a client for which the round has waited
        began its late task before that of the round.
        """
        parts = []
        if late is not None:
            assert stats.timeline is not None
            usable = late.part(np.flatnonzero(late.status == USED))
            for version in np.unique(usable.version).tolist():
                part = usable.part(usable.version == version)
                parts.append((part, stats.timeline.sends[version]))
        if len(used):
            every = len(used) == len(tasks)  # none was tried again, so they are in order
            parts.append((tasks if every else tasks.part(used), asked.ask.send))
        answers = self.exchange.answers(asked, parts, stats)
        return (answers[:-1], answers[-1]) if len(used) else (answers, None)

    def _count(
        self, asked: SentAsk, tasks: Tasks, numbers: Ints, ongoing: Bools | None,
        answered: tuple[Ints, TaskAnswer | None], stats: RoundStats,
    ) -> None:  # fmt: skip
        """Count the downloads of tasks (K,), and those of them that are over.

        `answered` are the places of those whose replies are used, and what these came to.
        """
        losses, (used, fresh) = np.full(len(tasks), np.nan), answered
        if fresh is not None:
            losses[used] = fresh.losses
        to_cohort = asked.coded and asked.ask.clients is None
        if to_cohort:
            stats.counts["participants"] = 0
        stats.counts["bytes_down"] += int(tasks.down_bytes.sum())
        if ongoing is not None and ongoing.any():
            over = ~ongoing
            tasks, losses, numbers = tasks.part(over), losses[over], numbers[over]
        ended = CountedTasks(tasks, losses, stats.round, stats.round - 1, numbers)
        stats.count(ended, participants=to_cohort)

    # -- waiting ---------------------------------------------------------------------------

    def _waited(self, cohort: Cohort, stays: bool) -> tuple[Tasks, Ints, float, Bools | None]:
        """Return the tasks of a cohort, their fates, and the end of the server's wait.

        Unfinished tasks, where they stay on the timeline, come last; the outcome of each on its own
        is in the tasks themselves.
        """
        stats, deadline_s = cohort.stats, self._deadline_s(cohort.stats)
        if self.known:
            serial = 0 if stats.timeline is None else stats.timeline.serial
            tasks, _ = self._begun(cohort, cohort.ids, cohort.drawn, stats.time_s, 0, serial)
        else:
            tasks = self._stepped(cohort, stays)
        status, close_s = settled(tasks, stats.time_s, cohort.first, deadline_s)
        return tasks, status, close_s, continuing(tasks, status, close_s) if stays else None

    def _waited_at_edges(self, cohort: Cohort, edges: Ints) -> tuple[Tasks, Ints, float, None]:
        """Return the same where each edge server (K,) waits for its own clients.

        It begins when its last Ask of the round is over. Its share of the replies after which a
        cohort is complete is that of its clients, rounded up.
        """
        stats, found = cohort.stats, []
        clocks = stats.edges_s
        for edge in np.unique(edges).tolist():
            own, now_s = edges == edge, clocks.get(edge, stats.time_s)
            first, count = cohort.first, int(np.count_nonzero(own))
            part = Cohort(
                cohort.asked, cohort.ids[own], cohort.drawn[own],
                replace(stats, time_s=now_s, start_s=now_s),
                None if first is None else -(-first * count // len(edges)),
            )  # fmt: skip
            tasks, status, clocks[edge], _ = self._waited(part, stays=False)
            found.append(tasks.with_status(status))
        tasks = Tasks.joined(found)
        return tasks, tasks.status, max(clocks.values()), None

    def _deadline_s(self, stats: RoundStats) -> float:
        """Return until when the server waits in a round; inf if it has no deadline."""
        return stats.start_s + (self.rule.deadline_s or math.inf)

    def _begun(
        self, cohort: Cohort, ids: Ints, drawn: Ints, now_s: float, attempt: int, serial: int
    ) -> tuple[Tasks, Times]:
        """Return the tasks that clients (K,) start now, and their durations.

        Where the server's bandwidth is shared no end is known yet.
        """
        stats, ask = cohort.stats, cohort.asked.ask
        traffic = self.exchange.traffic(cohort.asked, ids, stats.channel, stats.round - 1)
        fit_s = self._deadline_s(stats) if self.rule.late == "partial" else math.inf
        if attempt and isinstance(ask.cost, np.ndarray):
            ask = replace(ask, cost=ask.cost[np.searchsorted(cohort.ids, ids)])
        times = self.exchange.clock.begun(
            ask, traffic, ids, now_s, round=stats.round, number=stats.ask + attempt,
            step_state=stats.step_state, ahead={} if attempt else stats.ahead, fit_s=fit_s,
        )  # fmt: skip
        if stats.corrected is not None and cohort.asked.owner == "algorithm":
            at = np.searchsorted(cohort.ids, ids)
            weights = stats.corrected[at] if attempt else stats.corrected
        else:
            weights = drawn * self.exchange.weights(ids)
        if self.run.faults:
            times = times.with_silent(self.exchange.silent(cohort.asked, ids, stats.round))
        batteries = self.exchange.batteries
        if batteries is not None:
            levels = batteries.levels(stats.batteries, ids, now_s)
            times = batteries.lasting(times, traffic, ids, levels)
        tasks = begun(
            ids, now_s, times, traffic, serial=serial, timeout_s=self.rule.timeout_s,
            ends_known=not self.server.limited, draw=stats.round, version=stats.round - 1,
            ask=stats.ask, attempt=attempt, drawn=drawn, weight=weights,
        )  # fmt: skip
        if batteries is not None:
            batteries.began(stats.batteries, tasks, levels)
        return tasks, times

    def _stepped(self, cohort: Cohort, stays: bool) -> Tasks:
        """Return the tasks of a cohort, retries included, until the server stops waiting.

        What is under way then is left on the timeline if it stays there, and broken off otherwise.
        """
        stats = cohort.stats
        line = self.timeline() if stats.timeline is None else stats.timeline
        self.catch_up(stats)
        line.now_s = stats.time_s

        def begin(ids: Ints, drawn: Ints, attempt: int) -> list[Task]:
            tasks, times = self._begun(cohort, ids, drawn, line.now_s, attempt, line.serial)
            rows, ahead = tasks.rows(), cohort.asked.ask.overlap
            line.begin(rows)
            if isinstance(line.stages, Transfers):
                line.stages.begin(line.now_s, tasks, times, self.population, ahead)
            return rows

        def successors(failed: Tasks, now_s: float, asked: Ints) -> tuple[Ints, Ints]:
            if cohort.others is not None:
                return distinct(cohort.others(int(failed.drawn.sum()), now_s, asked))
            present = self.population.available(failed.client, now_s, stats.round)
            if self.exchange.batteries is not None:
                charged = self.exchange.batteries.charged
                present &= charged(stats.batteries, failed.client, now_s)
            return failed.client[present], failed.drawn[present]

        waiting = Waiting(line, cohort.first, self._deadline_s(stats))
        waiting.run(cohort.ids, cohort.drawn, begin, successors, self.rule.retries)
        if not stays:
            waiting.break_off()
        return waiting.tasks()

    # -- what comes of it ------------------------------------------------------------------

    def _late(self, stats: RoundStats, close_s: float) -> Tasks | None:
        """Take the tasks of earlier rounds that are over when a round ends, by their rounds.

        They are computed then: until then no other task changes their clients' state.
        """
        line = stats.timeline
        assert line is not None
        rows = [*line.waiting, *line.all_over(close_s)]
        line.waiting = []
        return Tasks.of(sorted(rows, key=attrgetter("version", "client"))) if rows else None

    def _count_late(
        self, tasks: Tasks, answers: Sequence[TaskAnswer], number: int, stats: RoundStats
    ) -> None:
        """Count late tasks, of which some are answered, and be done with them."""
        line, losses = stats.timeline, np.full(len(tasks), np.nan)
        assert line is not None
        losses[tasks.status == USED] = [loss for answer in answers for loss in answer.losses]
        numbers = np.full(len(tasks), number)
        stats.count(CountedTasks(tasks, losses, stats.round, stats.round - 1, numbers))
        line.forget(tasks.rows())
        line.release()

    def _keep_ongoing(self, tasks: Tasks, ongoing: Bools, stats: RoundStats, ask: Ask) -> None:
        """Leave tasks on the timeline of the rounds that follow."""
        line = stats.timeline
        assert line is not None
        if ongoing.any():
            line.update(stats.round - 1, ask.send)
        if self.known:
            line.begin(tasks.part(ongoing).rows())
            return
        line.forget(tasks.part(~ongoing).rows())
        line.waiting += [
            task for task in tasks.part(ongoing).rows() if task.serial not in line.open
        ]
