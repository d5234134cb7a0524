"""The policy of walks: models go from node to node; there is no server."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from rayfed.algorithms.multi_walk import MultiWalk
from rayfed.core.arrays import Array
from rayfed.core.errors import RunFailed
from rayfed.engine.barriers import alone_s
from rayfed.engine.clock import Duration, Times, Traffic
from rayfed.engine.exchange import Exchange
from rayfed.engine.run import Run
from rayfed.engine.state import RoundStats, RunState
from rayfed.engine.tasks import USED, CountedTasks, Task, Tasks
from rayfed.engine.timeline import node_times
from rayfed.executors.profile import Profile
from rayfed.topology.walks.metropolis import Walker

PLACES = ("at", "came", "visits", "arrived_s", "start_s", "compute_s", "steps", "over_s")
"""Arrays (R,) of the state of a run: the node of each walk, whether it came over a link, the number
of its visit, from 0, when it arrived or will, when the visit began, what it takes, and when it is
over; inf if it has not begun. A walk at a node that is away for good never arrives."""


class WalkPolicy:
    """Advances one run of walks, visit by visit.

    A row is a visit; its time is that at which it is over. A node serves one walk at a time, in the
    order of their arrival, then of their numbers, and none while it is away.

    Parameters
    ----------
    run : Run
        What is run.
    exchange : Exchange
        Asks its clients.
    """

    def __init__(self, run: Run, exchange: Exchange) -> None:
        algorithm, graphs = run.training.algorithm, run.federation.graphs
        assert isinstance(algorithm, MultiWalk)  # the plan has checked this, and the graphs
        assert graphs is not None
        self.run, self.exchange, self.algorithm = run, exchange, algorithm
        self.walker = Walker(graphs, algorithm.rule)
        self.links = run.federation.population.links(np.arange(graphs.count))
        self.message_bytes = algorithm.ask(run.training.x0).bytes_up(run.training.dtype.itemsize)

    def profile(self, profile: Profile) -> None:
        """Measure the steps of rows from now on."""
        for method in ("_next", "_move", "_begin"):
            profile.watch(self, method, "clock")

    def first(self, first: RunState) -> RunState:
        """Return the state before the first visit: all walks have arrived at their first nodes."""
        count = self.algorithm.walks
        places: dict[str, Array] = {name: np.zeros(count) for name in PLACES}
        for name in ("at", "came", "visits", "steps"):
            places[name] = np.zeros(count, np.int64)
        for walk in range(count):
            places["at"][walk] = self.walker.first(walk)
            self._begin(places, walk, first)
        return replace(first, state={**first.state, **places})

    def advance(
        self, before: RunState, stats: RoundStats
    ) -> tuple[dict[str, Any], dict[str, float], bool]:
        """Run on to the end of the next visit; see `RoundPolicy.advance`.

        Raises
        ------
        RunFailed
            If all walks are at nodes that are away for good.
        """
        places = {name: before.state[name].copy() for name in PLACES}
        walk = self._next(places, stats)
        node, over_s = int(places["at"][walk]), float(places["over_s"][walk])
        visit, draw = int(places["visits"][walk]), self._draw(places, walk)
        start_s, came = float(places["start_s"][walk]), places["came"][walk]
        steps = int(places["steps"][walk])
        times, status, _ = self._times(places, walk, start_s)
        compute_s, gone_s = float(times.duration.compute_s[0]), float(times.gone_s[0])
        self._move(places, walk, stats.round, before)
        down, up = (int(moved) * self.message_bytes for moved in (came, places["came"][walk]))
        task = Task(
            over_s, node, stats.round, status, draw, visit, 0, 0, 1, steps, down, up, 1.0, start_s,
            compute_s, over_s, over_s, gone_s, np.inf,
        )  # fmt: skip
        stats.time_s, state, losses = over_s, before.state, np.full(1, np.nan)
        if status == USED:
            ask = self.algorithm.ask(before.state["walks"][walk])
            asked, tasks = self.exchange.sent(ask, "algorithm", stats), Tasks.of([task])
            request = self.exchange.request(asked, tasks, draw, tasks.weight)
            found = self.exchange.compute(request, ask.send, stats.when)
            state = self.algorithm.visited(before.state, walk, node, found.sums["x"])
            losses = found.each.get("loss", losses)
        stats.counts["bytes_down"] += down
        stats.count(CountedTasks([task], losses, stats.round, visit), up)
        return {"state": {**state, **places}}, {"walk": walk, "node": node}, status == USED

    def _next(self, places: dict[str, Array], stats: RoundStats) -> int:
        """Let walks begin their visits, up to the one that is over next; return its walk.

        At one instant, arrivals come first.
        """
        at, over_s, arrived_s = places["at"], places["over_s"], places["arrived_s"]
        while True:
            begun = np.isfinite(over_s)
            waiting_s = np.where(begun, np.inf, arrived_s)
            first, last = int(waiting_s.argmin()), int(over_s.argmin())
            if waiting_s[first] > over_s[last]:
                return last
            if math.isinf(waiting_s[first]):
                text = f"{stats.when}: all walks are at nodes that are away for good"
                raise RunFailed(f"{text}; increase availability")
            free_s = float(over_s[begun & (at == at[first])].max(initial=0.0))
            begin_s = max(float(waiting_s[first]), free_s)
            node = at[first : first + 1]
            places["start_s"][first] = start_s = self.exchange.clock.first_available(node, begin_s)
            if math.isinf(start_s):
                arrived_s[first] = np.inf
            else:
                *_, over_s[first] = self._times(places, first, start_s)

    def _times(
        self, places: dict[str, Array], walk: int, start_s: float
    ) -> tuple[Times, int, float]:
        """Return the times of the visit of a walk that begins now, its fate, and its end."""
        ids, nothing = places["at"][walk : walk + 1], np.zeros(1)
        steps, compute_s = (places[name][walk : walk + 1] for name in ("steps", "compute_s"))
        duration, lost = self.exchange.clock.crash_losses(
            ids, Duration(steps, nothing, compute_s, nothing), Traffic(0, 0), start_s,
            self._draw(places, walk),
        )  # fmt: skip
        return node_times(self.exchange.clock, ids, start_s, duration, lost)

    def _move(self, places: dict[str, Array], walk: int, row: int, before: RunState) -> None:
        """Send a walk whose visit is over to its next node.

        The draw is that of a server that walks, before the next round.
        """
        source, now_s = int(places["at"][walk]), float(places["over_s"][walk])
        target = self.walker.step(source, row + 1, now_s, ask=walk)
        ends = np.array([source, target])
        if not self.run.federation.population.available(ends, now_s, 1).all():
            target = source
        seconds = self.walker.seconds(source, target, row + 1, now_s)
        if target != source:
            graphs = self.walker.graphs
            routes = graphs.routes(graphs.epoch(row + 1, now_s))
            seconds += alone_s(self.links, source, target, self.message_bytes, routes)
        places["at"][walk], places["came"][walk] = target, target != source
        places["visits"][walk] += 1
        places["arrived_s"][walk] = now_s + seconds
        self._begin(places, walk, before)

    def _begin(self, places: dict[str, Array], walk: int, before: RunState) -> None:
        """Draw what the visit of a walk takes; it has not begun."""
        clock, ids = self.exchange.clock, places["at"][walk : walk + 1]
        draw = self._draw(places, walk)
        pace = clock.pace(ids, draw)
        steps = self.exchange.counter.steps(ids, pace, draw, before.step_state)
        ask = self.algorithm.ask(self.run.training.x0)
        duration = clock.duration(ask, Traffic(0, 0), ids, pace, steps)
        places["steps"][walk], places["compute_s"][walk] = steps[0], duration.compute_s[0]
        places["over_s"][walk] = np.inf

    def _draw(self, places: dict[str, Array], walk: int) -> int:
        """Return the coordinate of keyed draws of a visit, from 1."""
        return int(places["visits"][walk]) * self.algorithm.walks + walk + 1
