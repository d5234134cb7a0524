"""The policy of meetings: pairs of nodes exchange models, each node at its own pace.

Virtual time depends on nothing that a node computes, so the meetings of a row are known before
anything is computed. Those that share no node with an earlier one of the same level are computed
together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rayfed.algorithms.meeting import Meeting
from rayfed.clients.request import uncharged
from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.rng import Key
from rayfed.engine.clock import Traffic
from rayfed.engine.exchange import Exchange
from rayfed.engine.places import Durations
from rayfed.engine.run import Run
from rayfed.engine.state import RoundStats, RunState
from rayfed.engine.tasks import USED, CountedTasks, Task, Tasks
from rayfed.engine.timeline import Timeline
from rayfed.executors.profile import Profile

PEER = "peer"
"""The peer (N,) of each node's current task, in the state of a run."""


class MeetingPolicy:
    """Advances one run of a method of meetings, some meetings at a time.

    A row is a number of meetings, in the order of their times, then of the ids of the nodes that
    have computed. Models go through the driver, which holds those of all nodes during a row.

    Parameters
    ----------
    run : Run
        What is run.
    exchange : Exchange
        Asks its clients.
    """

    def __init__(self, run: Run, exchange: Exchange) -> None:
        algorithm, graphs = run.training.algorithm, run.federation.graphs
        assert isinstance(algorithm, Meeting)  # the plan has checked this, and that there are graphs
        assert graphs is not None
        self.run, self.exchange, self.algorithm, self.graphs = run, exchange, algorithm, graphs
        self.ids = np.arange(run.federation.population.count)
        self.ask = algorithm.ask(run.training.x0.size)
        self.message_bytes = self.ask.bytes_up(run.training.dtype.itemsize)
        self.durations = Durations(exchange, self.ask)
        self.links = run.federation.population.links(self.ids)
        self.key = Key(run.seed, "meetings")

    def profile(self, profile: Profile) -> None:
        """Measure the steps of rows from now on."""
        profile.watch(self, "_schedule", "clock")
        profile.watch(self, "_computed", "adding up")

    def first(self, first: RunState) -> RunState:
        """Return the state before the first meeting: all nodes begin to compute at time 0."""
        line, peers = Timeline(), self.ids.copy()
        for node in self.ids.tolist():
            self._begin(node, line, peers)
        return replace(first, state={**first.state, PEER: peers}, timeline=line)

    def advance(
        self, before: RunState, stats: RoundStats
    ) -> tuple[dict[str, Any], dict[str, float], bool]:
        """Run on for the meetings of a row; see `RoundPolicy.advance`."""
        line = before.timeline
        assert line is not None  # `first` made it, or a checkpoint held it
        self.exchange.look_at(stats.round)
        rows, met, peers = self._schedule(line, before.state[PEER].copy())
        tasks = Tasks.of(rows)
        x, losses = self._computed(tasks, met, stats)
        stats.counts["bytes_down"] += int(tasks.down_bytes.sum())
        stats.count(CountedTasks(tasks, losses, stats.round, line.version))
        stats.staleness = line.version - tasks.version
        line.version = stats.round
        stats.time_s, stats.timeline = line.now_s, line
        state = {**before.state, "x": x, PEER: peers}
        return {"state": state}, stats.lateness(len(line.open)), True

    # -- the schedule ----------------------------------------------------------------------

    def _schedule(self, line: Timeline, peers: Ints) -> tuple[list[Task], Ints, Ints]:
        """Return the finished tasks (M,) of a row, their peers (M,), and the next peers (N,)."""
        tasks, met = [], []
        for _ in range(self.algorithm.meetings or len(self.ids)):
            line.advance(line.next_s)
            task = line.over()
            assert task is not None  # every node always has one
            tasks.append(task)
            met.append(peers[task.client])
            self._begin(task.client, line, peers)
        line.forget(tasks)
        line.freed.clear()
        return tasks, np.array(met), peers

    def _begin(self, node: int, line: Timeline, peers: Ints) -> None:
        """Let a node begin its next task now: it computes, then meets a peer, which is drawn.

        A node without neighbours meets itself, which takes no time.
        """
        number = line.numbers[node] = line.numbers.get(node, 0) + 1
        ((steps, _, compute_s, _, _),) = self.durations.rows(
            np.array([node]), np.array([number]), Traffic(0, 0)
        )
        computed_s = line.now_s + float(compute_s)
        around = self.graphs.at(line.version + 1, computed_s).neighbours(node)
        peer, moved, over_s = node, 0, computed_s
        if len(around):
            drawn = self.key.integers([node], [len(around)], 1, round=number)
            peer, moved = int(around[drawn[0, 0]]), 2 * self.message_bytes
            over_s += self._seconds(node, peer) + self._seconds(peer, node)
        peers[node] = peer
        never = float("inf")
        line.begin([Task(
            over_s, node, line.serial + 1, USED, number, line.version, 0, 0, 1, int(steps), moved,
            moved, 1.0, line.now_s, float(compute_s), over_s, over_s, never, never,
        )])  # fmt: skip

    def _seconds(self, sender: int, receiver: int) -> float:
        """Return the time of a message, which has both connections to itself."""
        latency, down, up = self.links
        rate = min(up[sender], down[receiver])
        return float(latency[sender] + latency[receiver] + self.message_bytes * 8e-6 / rate)

    # -- computing -------------------------------------------------------------------------

    def _computed(self, tasks: Tasks, peers: Ints, stats: RoundStats) -> tuple[Array, Floats]:
        """Return the mean (p,) of the nodes' next models, and the losses (M,) of the tasks."""
        asked = self.exchange.sent(self.ask, "algorithm", stats)
        size = self.run.training.x0.size
        load = uncharged("algorithm", "load", {"x": size, "read": size}, self.ids, stats.round)
        state = self.exchange.compute(replace(load, vectors=True, sums=False), {}, stats.when).each
        x, read, losses = state["x"], state["read"], np.full(len(tasks), np.nan)
        for places in levels(tasks.client, peers):
            part = tasks.part(places)
            i, j = part.client, peers[places]
            x[j] = merged = self.algorithm.merge(x[i], x[j])
            step = replace(
                self.exchange.request(asked, part, part.draw, part.weight),
                round=stats.round, vectors=True, sums=False, rows=np.arange(len(part)),
            )  # fmt: skip
            each = self.exchange.compute(step, {"x": merged, "read": read[i]}, stats.when).each
            stats.add_metrics(each, part.weight)
            x[i] = read[i] = each["x"]
            losses[places] = each.get("loss", np.nan)
        store = uncharged("algorithm", "store", {"x": size}, self.ids, stats.round)
        send = {"x": x, "read": read}
        total = self.exchange.compute(replace(store, rows=self.ids), send, stats.when).sums["x"]
        return total / total.dtype.type(len(self.ids)), losses


def levels(nodes: Ints, peers: Ints) -> Sequence[Ints]:
    """Return the levels of meetings (M,): meetings of one level share no node.

    A level holds places of meetings, by the node. A meeting is on the level after the last earlier
    one of its two nodes, so that levels in turn give what meetings in turn give.

    Examples
    --------
    >>> [level.tolist() for level in levels(np.array([3, 0, 1, 2]), np.array([2, 1, 2, 3]))]
    [[1, 0], [2], [3]]
    """
    after: dict[int, int] = {}
    level = np.empty(len(nodes), np.int64)
    for k, (i, j) in enumerate(zip(nodes.tolist(), peers.tolist(), strict=True)):
        level[k] = max(after.get(i, 0), after.get(j, 0))
        after[i] = after[j] = int(level[k]) + 1
    order = np.lexsort((nodes, level))
    return np.split(order, np.flatnonzero(np.diff(level[order])) + 1)
