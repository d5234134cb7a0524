"""The policy of meetings: pairs of nodes exchange models, each node at its own pace.

Virtual time depends on nothing that a node computes, so the meetings of a row are known before
anything of it is computed. Meetings that share no node are then computed together.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from rayfed.algorithms.meeting import BEGUN, Meeting
from rayfed.clients.request import uncharged
from rayfed.core.arrays import Array, Bools, Floats, Ints
from rayfed.core.errors import RunFailed
from rayfed.core.rng import Key
from rayfed.engine.barriers import alone_s
from rayfed.engine.clock import Times, Traffic
from rayfed.engine.exchange import Exchange
from rayfed.engine.places import Durations
from rayfed.engine.run import Run
from rayfed.engine.state import RoundStats, RunState
from rayfed.engine.tasks import USED, CountedTasks, Task, Tasks
from rayfed.engine.timeline import Timeline, node_times
from rayfed.executors.profile import Profile
from rayfed.messages import State

WAITS, TRAVELS, MEETS = range(3)
"""Stages of a task, in `Task.ask`."""


class Nodes(NamedTuple):
    """What is known of nodes (N,), in the state of a run.

    Parameters
    ----------
    peer, serial : (N,) array of int
        The peer and the serial number of the current task of each.
    busy_s : (N,) array of float
        When each has taken all steps for the messages that it has got.
    """

    peer: Ints
    serial: Ints
    busy_s: Floats


class Event(NamedTuple):
    """A meeting of two nodes, or the beginning of a task.

    Parameters
    ----------
    node, peer : int
        The node whose task it is, and its peer; itself where its task begins.
    task : Task, optional
        The task that the meeting ends; None where one begins.
    """

    node: int
    peer: int
    task: Task | None = None


class MeetingPolicy:
    """Advances one run of a method of meetings, some meetings at a time.

    A row is a number of meetings and lost tasks, in the order of their times, then of the ids of
    the nodes that compute. Models go through the driver, which holds those of all nodes during a
    row.

    Every node has one task on the timeline, unless it is away for good. With answers a task is over
    when the node has computed and exchanged models with its peer. Without answers it has three
    stages (`Task.ask`): the node waits for the end of its period, its message travels, and then it
    is a task of its peer, which takes a step when the message is there and its earlier steps are
    over. The first two stages are no work of a node: they start at infinity. A node that is away
    when its task would begin waits in the first stage until it is back.

    Parameters
    ----------
    run : Run
        What is run.
    exchange : Exchange
        Asks its clients.
    """

    def __init__(self, run: Run, exchange: Exchange) -> None:
        algorithm, graphs = run.training.algorithm, run.federation.graphs
        assert isinstance(algorithm, Meeting)  # the plan has checked this, and the graphs
        assert graphs is not None
        self.run, self.exchange, self.algorithm, self.graphs = run, exchange, algorithm, graphs
        self.ids = np.arange(run.federation.population.count)
        self.ask = algorithm.ask(run.training.x0)
        self.message_bytes = self.ask.bytes_up(run.training.dtype.itemsize)
        self.links = run.federation.population.links(self.ids)
        self.durations = Durations(exchange, self.ask)
        self.key = Key(run.seed, "meetings")

    def profile(self, profile: Profile) -> None:
        """Measure the steps of rows from now on."""
        profile.watch(self, "_schedule", "clock")
        profile.watch(self, "_computed", "adding up")

    def first(self, first: RunState) -> RunState:
        """Return the state before the first meeting: all nodes begin at time 0."""
        line, count = Timeline(), len(self.ids)
        nodes = Nodes(self.ids.copy(), np.zeros(count, np.int64), np.zeros(count))
        phases = self.key.sub("phase").uniforms(self.ids) * self.algorithm.period
        for node, phase_s in zip(self.ids.tolist(), phases.tolist(), strict=True):
            self._begin(node, line, nodes, phase_s)
        return replace(first, state={**first.state, **nodes._asdict()}, timeline=line)

    def advance(
        self, before: RunState, stats: RoundStats
    ) -> tuple[dict[str, Any], dict[str, float], bool]:
        """Run on for the meetings of a row; see `RoundPolicy.advance`."""
        line = before.timeline
        assert line is not None  # `first` made it, or a checkpoint held it
        self.exchange.look_at(stats.round)
        nodes = Nodes(*(before.state[name].copy() for name in Nodes._fields))
        events, lost = self._schedule(line, nodes, stats)
        x, tasks, losses = before.state["x"], Tasks.of([]), np.empty(0)
        if events:
            x, tasks, losses = self._computed(events, stats)
        for ended, found in ((tasks, losses), (Tasks.of(lost), np.full(len(lost), np.nan))):
            stats.counts["bytes_down"] += int(ended.down_bytes.sum())
            sent = int(ended.up_bytes.sum())
            if len(ended):
                stats.count(CountedTasks(ended, found, stats.round, line.version), sent)
        stats.staleness = line.version - tasks.version
        line.version = stats.round
        stats.time_s, stats.timeline = line.now_s, line
        state = {**before.state, "x": x, **nodes._asdict()}
        return {"state": state}, stats.lateness(len(line.open)), len(tasks) > 0

    # -- the schedule ----------------------------------------------------------------------

    def _schedule(
        self, line: Timeline, nodes: Nodes, stats: RoundStats
    ) -> tuple[list[Event], list[Task]]:
        """Return the events and the lost tasks of a row; `line` and `nodes` become those after it.

        Raises
        ------
        RunFailed
            If all nodes are away for good.
        """
        events: list[Event] = []
        lost: list[Task] = []
        for _ in range(self.algorithm.meetings or len(self.ids)):
            while (task := self._next(line, stats)).ask != MEETS:
                if task.ask == TRAVELS:
                    self._receive(task, line, nodes)
                    continue
                events.append(Event(task.client, task.client))
                go_on = self._meet if self.algorithm.answers else self._send
                go_on(task, line, nodes)
            node = int(np.flatnonzero(nodes.serial == task.serial)[0])
            if task.status == USED:
                events.append(Event(node, int(nodes.peer[node]), task))
            else:
                lost.append(task)
                events.append(Event(node, node))
            self._begin(node, line, nodes, max(line.now_s, task.free_s))
        line.freed.clear()
        return events, lost

    def _next(self, line: Timeline, stats: RoundStats) -> Task:
        """Return the task whose stage is over next."""
        if math.isinf(line.next_s):
            text = f"round {stats.round}: at {line.now_s:.6g} s all nodes are away for good"
            raise RunFailed(f"{text}; increase availability")
        line.advance(line.next_s)
        task = line.over()
        assert task is not None
        line.forget([task])
        return task

    def _begin(self, node: int, line: Timeline, nodes: Nodes, begin_s: float) -> None:
        """Let a node begin a task at `begin_s`, or when it is back if it is away then."""
        start_s = self.exchange.clock.first_available(self.ids[node : node + 1], begin_s)
        task = Task(
            start_s, node, 0, USED, 0, line.version, WAITS, 0, 1, 0, 0, 0, 1.0, math.inf, 0.0,
            start_s + self.algorithm.period, math.inf, math.inf, math.inf,
        )  # fmt: skip
        if self.algorithm.answers and start_s <= line.now_s:
            self._meet(task, line, nodes)
        elif math.isfinite(start_s):
            self._put(node, line, nodes, task)

    def _meet(self, task: Task, line: Timeline, nodes: Nodes) -> None:
        """Let a node compute from now on and then exchange models."""
        node = task.client
        number, times, status, over_s = self._work(node, line, line.now_s)
        moved, gone_s = 0, float(times.gone_s[0])
        if status == USED:
            there_s, back_s, moved = self._drawn(node, line, nodes, over_s)
            over_s += there_s + back_s
        steps, compute_s = int(times.duration.steps[0]), float(times.duration.compute_s[0])
        self._put(node, line, nodes, Task(
            over_s, node, 0, status, number, line.version, MEETS, 0, 1, steps, 2 * moved, 2 * moved,
            1.0, line.now_s, compute_s, over_s, over_s, gone_s, math.inf,
        ))  # fmt: skip

    def _send(self, task: Task, line: Timeline, nodes: Nodes) -> None:
        """Let a node send its model to a peer now."""
        there_s, _, moved = self._drawn(task.client, line, nodes, line.now_s)
        self._put(task.client, line, nodes, task._replace(
            ask=TRAVELS, over_s=line.now_s + there_s, down_bytes=moved, up_bytes=moved,
            version=line.version,
        ))  # fmt: skip

    def _receive(self, task: Task, line: Timeline, nodes: Nodes) -> None:
        """Let a step of the peer follow a message that is there now."""
        peer = int(nodes.peer[task.client])
        number, times, status, end_s = self._work(
            peer, line, max(line.now_s, float(nodes.busy_s[peer]))
        )
        nodes.busy_s[peer] = end_s
        self._put(task.client, line, nodes, task._replace(
            ask=MEETS, client=peer, status=status, over_s=end_s, end_s=end_s,
            start_s=float(times.start_s[0]), compute_s=float(times.duration.compute_s[0]),
            draw=number, steps=int(times.duration.steps[0]), gone_s=float(times.gone_s[0]),
        ))  # fmt: skip

    def _put(self, node: int, line: Timeline, nodes: Nodes, task: Task) -> None:
        """Put the task of a node, or the next stage of it, on the timeline."""
        nodes.serial[node] = line.serial + 1
        line.begin([task._replace(serial=line.serial + 1)])

    def _drawn(
        self, node: int, line: Timeline, nodes: Nodes, now_s: float
    ) -> tuple[float, float, int]:
        """Draw the peer of a node; return the seconds there and back, and the bytes of a message.

        A node without neighbours that are available is its own peer: it trains alone.
        """
        epoch = self.graphs.epoch(line.version + 1, now_s)
        around = self.graphs.of(epoch).neighbours(node)
        around = around[self.run.federation.population.available(around, now_s, 1)]
        nodes.peer[node] = node
        if not len(around):
            return 0.0, 0.0, 0
        drawn = self.key.integers([node], [len(around)], 1, round=line.serial)
        nodes.peer[node] = peer = int(around[drawn.item()])
        routes, size = self.graphs.routes(epoch), self.message_bytes
        there_s, back_s = (
            alone_s(self.links, *ends, size, routes) for ends in ((node, peer), (peer, node))
        )
        return there_s, back_s, size

    def _work(self, node: int, line: Timeline, begin_s: float) -> tuple[int, Times, int, float]:
        """Return the number of a node's next computation, its times, its fate, and its end."""
        number = line.numbers[node] = line.numbers.get(node, 0) + 1
        ids, numbers = self.ids[node : node + 1], np.array([number])
        duration, lost = self.durations.of(ids, numbers, Traffic(0, 0), begin_s)
        return number, *node_times(self.exchange.clock, ids, begin_s, duration, lost)

    # -- computing -------------------------------------------------------------------------

    def _computed(self, events: Sequence[Event], stats: RoundStats) -> tuple[Array, Tasks, Floats]:
        """Return the mean (p,) of the nodes' next models, and tasks and losses (M,) of a row."""
        algorithm, asked = self.algorithm, self.exchange.sent(self.ask, "algorithm", stats)
        met = [event for event in events if event.task is not None]
        i, j = np.array([event[:2] for event in met], np.int64).reshape(-1, 2).T
        tasks = Tasks.of(event.task for event in met if event.task is not None)
        (now, then), losses = self._loaded(stats), np.full(len(tasks), np.nan)
        for begins, places in levels(events):
            _put(then, begins, _rows(now, begins))
            if not len(places):
                continue
            at = places[np.argsort(tasks.client[places])]
            part, one, other = tasks.part(at), i[at], j[at]
            mine, yours = _rows(now, one), _rows(now, other)
            if algorithm.answers:
                answer = self._sent(yours, other, one, part, stats, ask=1)
                merged = {**algorithm.merge(mine, answer), "read": then["x"][one]}
                _put(now, other, algorithm.merge(self._sent(mine, one, other, part, stats), yours))
            else:
                sent = self._sent(_rows(then, one), one, other, part, stats)
                merged = {**algorithm.merge(yours, sent)}
            request = replace(
                self.exchange.request(asked, part, part.draw, part.weight),
                round=stats.round, vectors=True, sums=False, rows=np.arange(len(part)),
            )  # fmt: skip
            each = self.exchange.compute(request, merged, stats.when).each
            stats.add_metrics(each, part.weight)
            losses[at] = each.get("loss", np.nan)
            for state in (now, then) if algorithm.answers else (now,):
                _put(state, part.client, each)
        return self._stored(now, then, stats), tasks, losses

    def _sent(
        self, state: dict[str, Array], senders: Ints, receivers: Ints, tasks: Tasks,
        stats: RoundStats, ask: int = 0,
    ) -> State:  # fmt: skip
        """Return the state (K, ...) that nodes send to others."""
        away = senders != receivers
        if not (self.run.faults and away.any()):
            return state
        part, draw = _rows(state, away), tasks.serial[away]
        sent = self.exchange.message(part, senders[away], draw, stats.round, ask)
        state = {name: rows.copy() for name, rows in state.items()}
        _put(state, away, sent)
        return state

    def _loaded(self, stats: RoundStats) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return the state (N, ...) of all nodes: as it is, and as it was when tasks began."""
        first = self.algorithm.client_state(self.run.training.x0)
        up = {name: int(np.size(value)) for name, value in first.items()}
        load = uncharged("algorithm", "load", up, self.ids, stats.round)
        each = self.exchange.compute(replace(load, vectors=True, sums=False), {}, stats.when).each
        now, then = (
            {name: each[f"{prefix}{name}"].copy() for name in self.ask.up} for prefix in ("", BEGUN)
        )
        return now, then

    def _stored(
        self, now: Mapping[str, Array], then: Mapping[str, Array], stats: RoundStats
    ) -> Array:
        """Let nodes keep their state (N, ...), and return the mean (p,) of their models."""
        up = {"x": self.run.training.x0.size}
        store = uncharged("algorithm", "store", up, self.ids, stats.round)
        send = {**now, **{f"{BEGUN}{name}": rows for name, rows in then.items()}}
        store = replace(store, rows=self.ids)
        total = self.exchange.compute(store, send, stats.when).sums["x"]
        mean: Array = total / total.dtype.type(len(self.ids))
        return mean


def levels(events: Iterable[Event]) -> Iterator[tuple[Ints, Ints]]:
    """Yield levels of events, which in turn give what single events in turn give.

    A meeting is on the level after the last earlier one of its two nodes, so meetings of a level
    share no node. A task begins on the level of the next meeting of its node, before it.

    Yields
    ------
    begins : array of int
        Nodes whose tasks begin.
    places : array of int
        The places of meetings among all meetings.
    """
    after: Counter[int] = Counter()
    found: list[tuple[list[int], list[int]]] = [([], [])]
    meetings = count()
    for node, peer, task in events:
        level = max(after[node], after[peer])
        if task is None:
            found[level][0].append(node)
            continue
        found[level][1].append(next(meetings))
        after[node] = after[peer] = level + 1
        if level + 1 == len(found):
            found.append(([], []))
    for begins, places in found:
        yield np.array(begins, np.int64), np.array(places, np.int64)


def _rows(state: Mapping[str, Array], nodes: Ints | Bools) -> dict[str, Array]:
    """Return the state (K, ...) of some nodes."""
    return {name: values[nodes] for name, values in state.items()}


def _put(state: Mapping[str, Array], nodes: Ints | Bools, rows: Mapping[str, Array]) -> None:
    """Change the state (N, ...) of some nodes."""
    for name, values in state.items():
        values[nodes] = rows[name]
