"""The policy of steps: nodes compute, send to their neighbours, and mix; there is no server."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from rayfed.algorithms.gossip import Gossip
from rayfed.core.arrays import Array, Floats
from rayfed.engine.barriers import Arcs, after_step, arcs
from rayfed.engine.clock import Traffic
from rayfed.engine.exchange import Exchange, SentAsk
from rayfed.engine.run import Run
from rayfed.engine.state import RoundStats, RunState
from rayfed.engine.tasks import USED, CountedTasks, Tasks
from rayfed.executors.profile import Profile
from rayfed.topology.mixing import mixing

if TYPE_CHECKING:
    from scipy.sparse import csr_array

READY = "ready_s"
"""The time (N,) at which each node has its model, in the state of a run."""


class StepPolicy:
    """Advances one run of a gossip method, step by step.

    A row is step k of all nodes; its time is that at which the last node has its model. Messages
    go from the hosts of their senders through the driver, which adds them up in the order of ids,
    so that results do not depend on where nodes live.

    Parameters
    ----------
    run : Run
        What is run.
    exchange : Exchange
        Asks its clients.
    """

    def __init__(self, run: Run, exchange: Exchange) -> None:
        algorithm, graphs = run.training.algorithm, run.federation.graphs
        assert isinstance(algorithm, Gossip)  # the plan has checked this, and that there are graphs
        assert graphs is not None
        self.run, self.exchange, self.algorithm, self.graphs = run, exchange, algorithm, graphs
        self.ids = np.arange(run.federation.population.count)
        self.ask = algorithm.ask(run.training.x0.size)
        asked = SentAsk(self.ask, "algorithm")
        self.message_bytes = int(np.max(exchange.traffic(asked, self.ids[:1], {}, 0).up))
        self._of_epoch = lru_cache(maxsize=2)(self._made)

    def profile(self, profile: Profile) -> None:
        """Measure the steps of rows from now on."""
        profile.watch(self, "_tasks", "clock")
        profile.watch(self, "_mixed", "adding up")

    def first(self, first: RunState) -> RunState:
        """Return the state before the first step: all nodes are ready at time 0."""
        return replace(first, state={**first.state, READY: np.zeros(len(self.ids))})

    def advance(
        self, before: RunState, stats: RoundStats
    ) -> tuple[dict[str, Any], dict[str, float], bool]:
        """Run a step of all nodes; see `RoundPolicy.advance`."""
        self.exchange.look_at(stats.round)
        w, links = self._of_epoch(self.graphs.epoch(stats.round, before.time_s))
        tasks = self._tasks(before, stats, links)
        x, losses = self._mixed(tasks, w, stats)
        stats.counts["bytes_down"] += int(tasks.down_bytes.sum())
        stats.count(CountedTasks(tasks, losses, stats.round, stats.round - 1))
        stats.time_s = float(tasks.over_s.max())
        skew_s = stats.time_s - float(tasks.over_s.min())
        state = {**before.state, "x": x, READY: tasks.over_s}
        return {"state": state}, {"skew_s": skew_s}, True

    def _made(self, epoch: int) -> tuple[csr_array[Any], Arcs]:
        """Return the mixing matrix of the graph of an epoch, and its messages."""
        graph = self.graphs.of(epoch).listed()
        w = mixing(graph, self.exchange.weights(self.ids), self.algorithm.mixing)
        links = self.run.federation.population.links(self.ids)
        messages = arcs(graph, links, self.message_bytes)
        if graph.directed and not self.algorithm.knows_senders:
            messages = messages._replace(latency=links[0])
        return w.astype(self.run.training.dtype), messages

    def _tasks(self, before: RunState, stats: RoundStats, links: Arcs) -> Tasks:
        """Return the tasks (N,) of a step, with their times."""
        clock, ids, ready_s = self.exchange.clock, self.ids, before.state[READY]
        pace = clock.pace(ids, stats.round)
        none = np.zeros(len(ids), np.int64)
        steps = none
        if self.ask.local:
            steps = self.exchange.counter.steps(ids, pace, stats.round, before.step_state)
        compute_s = clock.duration(self.ask, Traffic(0, 0), ids, pace, steps).compute_s
        over_s = after_step(ready_s, compute_s, links, overlap=self.algorithm.overlap)
        sent, received = (
            self.message_bytes * np.bincount(ends, minlength=len(ids))
            for ends in (links.sender, links.receiver)
        )
        ever, version = np.full(len(ids), np.inf), none + stats.round - 1
        serial = version * len(ids) + ids + 1
        return Tasks(
            over_s, ids, serial, none + USED, none + stats.round, version, none, none, none + 1,
            steps, received, sent, self.exchange.weights(ids), ready_s, compute_s, over_s, over_s,
            ever, ever,
        )  # fmt: skip

    def _mixed(self, tasks: Tasks, w: csr_array[Any], stats: RoundStats) -> tuple[Array, Floats]:
        """Return the mean (p,) of the nodes' next models, and the losses (N,) of their steps."""
        asked = self.exchange.sent(self.ask, "algorithm", stats)
        step = self.exchange.request(asked, tasks, stats.round, tasks.weight)
        sent = self.exchange.compute(
            replace(step, vectors=True, sums=False), self.ask.send, stats.when
        ).each
        near = {name: w @ sent[name] for name in self.ask.up}
        mix = replace(
            step, owner="mixing", function="mix", up={"x": self.run.training.x0.size}, ask=1,
            rows=self.ids, sleep_s=None,
        )  # fmt: skip
        total = self.exchange.compute(mix, near, stats.when).sums["x"]
        losses = sent.get("loss", np.full(len(self.ids), np.nan))
        return total / total.dtype.type(tasks.weight.sum()), losses
