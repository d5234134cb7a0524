"""The policy of asynchronous runs: a row for every update of the model."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rayfed.algorithms.asynchronous import Asynchronous
from rayfed.channel.uplink import LEFT_OUT
from rayfed.clients.request import Request
from rayfed.core.arrays import Array, Floats
from rayfed.engine.exchange import Exchange
from rayfed.engine.places import FinishedTasks, Places
from rayfed.engine.replies import TaskAnswer
from rayfed.engine.run import Run
from rayfed.engine.stages import Overlap, Transfers
from rayfed.engine.state import RoundStats, RunState, ServerFunction
from rayfed.engine.tasks import USED, CountedTasks, Task, Tasks, columns_of
from rayfed.engine.timeline import Send, Timeline
from rayfed.executors.base import Gathered
from rayfed.executors.profile import Profile
from rayfed.messages import Reply, State

_ANSWERED = ("client", "steps", "version", "weight", "start_s", "end_s")
_AHEAD = 2**26
"""Bytes of vectors that are computed before they are needed."""


class ArrivalPolicy:
    """Advances one run of an asynchronous algorithm, update by update.

    A row of ``rounds`` is an update of the model. A row is also closed, with the model unchanged,
    when the tasks in a row that ended without a usable reply are twice the clients that are busy
    at a time.

    What a client computes depends on the model, the client and the number of its task alone. So
    replies of which the server sees single vectors are computed for all busy clients at once,
    when the first of them is needed. State that clients keep is written when it is computed; so
    where there is any, a reply is computed when it enters an update, and not before.

    Parameters
    ----------
    run : Run
        What is run.
    exchange : Exchange
        Asks its clients.
    server_function : ServerFunction
    """

    def __init__(self, run: Run, exchange: Exchange, server_function: ServerFunction) -> None:
        self.run, self.exchange, self.server_function = run, exchange, server_function
        algorithm = run.training.algorithm
        assert isinstance(algorithm, Asynchronous)
        self.algorithm = algorithm
        self.places: Places
        self.line: Timeline | None = None  # that of the places
        self.ahead: dict[int, dict[str, Array]] = {}
        channel = self.exchange.channel
        shared = channel.uplink is not None and channel.uplink.by_round
        episodes = any(faulty.fault.episodic for faulty in run.faults)
        scheduled = any(solver.scheduled for solver in run.training.solvers)
        self.by_version = shared or episodes or scheduled or _reads_round(run)
        self.keeps_state = bool(run.initial)

    def first(self, first: RunState) -> RunState:
        """Return the state before anything is dispatched."""
        server = self.run.federation.server
        stages: Transfers | Overlap | None = Transfers.by(server, None) if server.limited else None
        line = Timeline(Overlap() if self.algorithm.overlap else stages)
        channel = self._publish(line, 0, first.state, first.channel)
        return replace(first, timeline=line, channel=channel)

    def advance(
        self, before: RunState, stats: RoundStats
    ) -> tuple[dict[str, Any], dict[str, float], bool]:
        """Make an update, or close a row without one; see `RoundPolicy.advance`."""
        closed, state = self._advance(before, stats.batteries), before.state
        places, line = self.places, self.places.line
        stats.time_s, stats.timeline = line.now_s, line
        values: dict[str, float] = {}
        losses: dict[int, float] = {}
        if closed.used:
            reply, losses = self._reply(closed.used, stats)
            returned = self.run.arrival(state, reply)
            state, diagnostics = self.server_function.result(returned, state, stats.round)
            values |= diagnostics
            stats.staleness = reply.staleness
        stats.counts["bytes_down"] += places.down_bytes
        places.down_bytes = 0
        self._count(closed, losses, stats)
        if closed.used:
            line.forget(closed.used)
            stats.channel = self._publish(line, line.version + 1, state, stats.channel)
        return {"state": state}, values | stats.lateness(len(line.open)), bool(closed.used)

    def _publish(self, line: Timeline, version: int, state: State, channel: State) -> State:
        """Let tasks begin from a new version; return the state of the channel after it."""
        ask, after = self.exchange.channel.sent(self.run.ask(state), channel, version + 1)
        line.update(version, ask.send)
        return after

    def profile(self, profile: Profile) -> None:
        """Measure the steps of rows from now on; selection is part of the clock."""
        for method in ("_advance", "_count"):
            profile.watch(self, method, "clock")
        profile.watch(self, "_reply", "adding up")

    def _advance(self, before: RunState, batteries: dict[str, Array]) -> FinishedTasks:
        """Run the clock on to the next row and return the finished tasks."""
        line = before.timeline
        assert line is not None  # `first` made it, or a checkpoint held it
        if self.line is not line:
            ask = self.exchange.channel.rule.asked(self.run.ask(before.state))
            self.places, self.ahead = Places(self.run, self.exchange, ask, line), {}
            self.line = line
        return self.places.advance(before.selection, before.channel, batteries)

    # -- replies ---------------------------------------------------------------------------

    def _reply(self, used: Sequence[Task], stats: RoundStats) -> tuple[Reply, dict[int, float]]:
        """Return the reply of an update, and the losses of its tasks by serial number."""
        ask, line, answers = self.places.asked.ask, self.places.line, []
        losses: dict[int, float] = {}
        for rows in self._by_part(used):
            ids, steps, version, raw, start_s, end_s = columns_of([rows], *_ANSWERED)
            staleness = line.version - version
            weights = raw * self.algorithm.discount(staleness)
            if ask.vectors:
                gathered = self._vectors(rows, weights, stats)
            else:
                request, send = self._request(Tasks.of(rows), weights)
                gathered = self.exchange.compute(request, send, stats.when)
            answer = TaskAnswer(
                ids, steps, staleness, raw, weights, end_s - start_s, gathered, line.version + 1
            )
            answers.append(answer)
            if "loss" in gathered.each:
                pairs = zip(rows, answer.losses.tolist(), strict=True)
                losses |= {task.serial: loss for task, loss in pairs}
        together = len({task.version for task in used}) == 1
        sent = line.sends[used[0].version] if together else {}
        reply = self.exchange.reply(
            self.places.asked, answers, stats, line.version, sent, stale=True
        )
        return reply, losses

    def _by_part(self, tasks: Sequence[Task]) -> list[list[Task]]:
        """Divide tasks so that no part has a client twice, nor two versions if rounds matter.

        Parts are ordered by how often a client has been in the parts before, then by version;
        within a part clients are in the order of their ids.
        """
        if len(tasks) == 1:
            return [list(tasks)]
        times: dict[int, int] = {}
        parts: dict[tuple[int, int], list[Task]] = {}
        for task in tasks:
            again = times[task.client] = times.get(task.client, -1) + 1
            version = task.version if self.by_version else 0
            parts.setdefault((again, version), []).append(task)
        return [sorted(parts[key], key=lambda task: task.client) for key in sorted(parts)]

    def _request(self, tasks: Tasks, weights: Floats) -> tuple[Request, Send]:
        """Return the request for tasks of distinct clients, ascending, and their download."""
        line, of_each = self.places.line, tasks.version.tolist()
        versions = sorted(set(of_each))
        request = self.exchange.request(self.places.asked, tasks, tasks.draw, weights)
        sends = [line.sends[version] for version in versions]
        if len(sends) == 1:
            return request, sends[0]
        send = {name: np.stack([send[name] for send in sends]) for name in sends[0]}
        rows = np.searchsorted(versions, of_each)
        return replace(request, rows=rows, round=versions[0] + 1), send

    def _vectors(self, tasks: Sequence[Task], weights: Floats, stats: RoundStats) -> Gathered:
        """Return the single replies of tasks, computed with those of other unfinished tasks."""
        if any(task.serial not in self.ahead for task in tasks):
            self._compute_ahead(tasks, stats)
        rows = [self.ahead.pop(task.serial) for task in tasks]
        if len(rows) == 1:
            each = {name: np.asarray(row)[None] for name, row in rows[0].items()}
        else:
            each = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
        sums = {LEFT_OUT: each.pop(LEFT_OUT).sum(axis=0)} if LEFT_OUT in each else {}
        for name, stack in each.items():
            if stack.ndim > 1:
                sums[name] = (stack * weights.astype(stack.dtype)[:, None]).sum(axis=0)
        return Gathered(sums, each)

    def _compute_ahead(self, tasks: Sequence[Task], stats: RoundStats) -> None:
        """Compute tasks, and, if clients keep no state, others that will be used soon."""
        line = self.places.line
        vector = sum(array.nbytes for array in line.sends[line.version].values())
        most = max(len(tasks), _AHEAD // max(vector, 1))
        clients = {task.client for task in tasks}
        wanted = [task for task in tasks if task.serial not in self.ahead]
        running = line.open.values()
        soon = running if most >= len(running) else heapq.nsmallest(most, running)
        for task in () if self.keeps_state else soon:
            fresh = task.serial not in self.ahead and task.client not in clients
            if task.status == USED and fresh and len(self.ahead) + len(wanted) < most:
                wanted.append(task)
        for part in self._by_part(wanted):
            table = Tasks.of(part)
            request, send = self._request(table, table.weight)
            each = self.exchange.compute(replace(request, sums=False), send, stats.when).each
            for k, task in enumerate(part):
                self.ahead[task.serial] = {name: rows[k] for name, rows in each.items()}

    # -- counts ----------------------------------------------------------------------------

    def _count(self, closed: FinishedTasks, losses: dict[int, float], stats: RoundStats) -> None:
        """Add arrived and ended tasks since the previous row to the counts and events of a row."""
        rows = sorted([*closed.used, *closed.failed])
        if not rows:
            stats.counts["bytes_up"] += closed.sent
            return
        found = [losses.get(task.serial, np.nan) for task in rows]
        ended = CountedTasks(rows, found, stats.round, self.places.line.version)
        stats.count(ended, closed.sent)


def _reads_round(run: Run) -> bool:
    """Return whether client functions may read the round, as those of others may."""
    ask = run.first_ask()
    function = getattr(run.training.algorithm, ask.function, None) if ask is not None else None
    return not getattr(function, "__module__", "").startswith("rayfed.")
