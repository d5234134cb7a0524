"""The policy of steps: nodes compute, send to their neighbours, and mix; there is no server."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from rayfed.algorithms.gossip import Gossip
from rayfed.clients.request import uncharged
from rayfed.core.arrays import Array, Bools, Floats, Ints
from rayfed.core.errors import RunFailed
from rayfed.engine.barriers import Arcs, StepEnd, after_step, arcs
from rayfed.engine.clock import Traffic
from rayfed.engine.exchange import Exchange, SentAsk
from rayfed.engine.run import Run
from rayfed.engine.state import RoundStats, RunState
from rayfed.engine.tasks import USED, CountedTasks, Tasks
from rayfed.engine.timeline import fates
from rayfed.executors.profile import Profile
from rayfed.topology.mixing import evenness, mixing, product, with_missing

if TYPE_CHECKING:
    from scipy.sparse import csr_array

READY = "ready_s"
"""The time (N,) at which each node has its model, in the state of a run."""


class StepPolicy:
    """Advances one run of a gossip method, step by step.

    A row is step k of all nodes; its time is that at which the last node has its model. Messages
    go from the hosts of their senders to those of their receivers, which add them up in the order
    of ids, so that results do not depend on where nodes live. Only with faults they pass the
    driver, which makes those of faulty nodes.

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
        """Run a step of all nodes; see `RoundPolicy.advance`.

        Raises
        ------
        RunFailed
            If all nodes are away for good.
        """
        self.exchange.look_at(stats.round)
        w, links = self._of_epoch(self.graphs.epoch(stats.round, before.time_s))
        tasks, end, waits = self._tasks(before, stats, links)
        used, x, losses = tasks.status == USED, before.state["x"], np.full(len(tasks), np.nan)
        if used.any():
            x, losses[used] = self._mixed(tasks.part(used), w, end.heard, stats)
        stats.counts["bytes_down"] += int(tasks.down_bytes.sum())
        stats.count(CountedTasks(tasks, losses, stats.round, stats.round - 1, waits=waits))
        stats.time_s = float(end.over_s.max())
        values = {"skew_s": stats.time_s - float(end.over_s.min())}
        if self.run.misses:
            values["missed"] = float(end.missed)
            came = with_missing(w, end.heard, self.algorithm.mixing)
            values["influence"] = evenness(came, self.exchange.weights(self.ids))
        state = {**before.state, "x": x, READY: end.over_s}
        return {"state": state}, values, bool(used.any())

    def _made(self, epoch: int) -> tuple[csr_array[Any], Arcs]:
        """Return the mixing matrix of the graph of an epoch, and its messages."""
        graph = self.graphs.of(epoch).listed()
        w = mixing(graph, self.exchange.weights(self.ids), self.algorithm.mixing)
        links = self.run.federation.population.links(self.ids)
        messages = arcs(graph, links, self.message_bytes, self.graphs.routes(epoch))
        if graph.directed and not self.algorithm.knows_senders:
            messages = messages._replace(latency=links[0])
        return w.astype(self.run.training.dtype), messages

    def _tasks(
        self, before: RunState, stats: RoundStats, links: Arcs
    ) -> tuple[Tasks, StepEnd, dict[str, Array]]:
        """Return the tasks of nodes that begin a step, the end of the step, and their waits."""
        clock, ready_s = self.exchange.clock, before.state[READY]
        away_s = clock.leaving_at(self.ids, ready_s, stats.round)
        begins = away_s > ready_s
        ids, start_s = self.ids[begins], ready_s[begins]
        pace, steps = clock.pace(ids, stats.round), np.zeros(len(ids), np.int64)
        if self.ask.local:
            steps = self.exchange.counter.steps(ids, pace, stats.round, before.step_state)
        nothing = np.zeros(len(ids))  # messages take their time later
        duration = clock.duration(self.ask, Traffic(0, 0), ids, pace, steps)
        duration = duration._replace(down_s=nothing, up_s=nothing)
        duration, lost = clock.crash_losses(ids, duration, Traffic(0, 0), start_s, stats.round)
        times = clock.alone(ids, duration, start_s, away_s[begins], lost)
        if self.run.faults:
            asked = SentAsk(self.ask, "algorithm")
            times = times.with_silent(self.exchange.silent(asked, ids, stats.round))
        status, until_s = fates(times.end_s, times.gone_s, np.full(len(ids), np.inf))

        done_s, active = ready_s.copy(), np.zeros(len(ready_s), np.bool_)
        done_s[ids], active[ids] = until_s, status == USED
        end = after_step(
            ready_s, done_s, links, overlap=self.algorithm.overlap, active=active,
            patience_s=self.run.participation.patience_s or math.inf,
        )  # fmt: skip
        end = end._replace(over_s=self._returned(end.over_s, active, links, stats))
        if not len(ids) and (end.over_s == ready_s).all() and not clock.population.by_round:
            text = f"round {stats.round}: at {end.over_s.max():.6g} s all nodes are away for good"
            raise RunFailed(f"{text}; increase availability")

        sent, received = self._bytes(links, active)
        over_s, version = np.where(status == USED, end.over_s[ids], until_s), stats.round - 1
        none = np.zeros(len(ids), np.int64)
        tasks = Tasks(
            over_s, ids, version * len(self.ids) + ids + 1, status, none + stats.round,
            none + version, none, none, none + 1, steps, received[ids], sent[ids],
            self.exchange.weights(ids), start_s, times.duration.compute_s, over_s, over_s,
            times.gone_s, np.full(len(ids), np.inf),
        )  # fmt: skip
        waits = {
            "wait_s": np.where(status == USED, end.over_s[ids] - done_s[ids], 0.0),
            "awaited": np.where(status == USED, end.last[ids], -1),
        }
        return tasks, end, waits

    def _bytes(self, links: Arcs, active: Bools) -> tuple[Ints, Ints]:
        """Return the bytes that nodes (N,) send and receive, between active ones."""
        both = active[links.sender] & active[links.receiver]
        sent, received = (
            self.message_bytes * np.bincount(ends[both], minlength=len(self.ids))
            for ends in (links.sender, links.receiver)
        )
        return sent, received

    def _returned(self, over_s: Floats, active: Bools, links: Arcs, stats: RoundStats) -> Floats:
        """Return the end of a step (N,), later for those away that hear nobody who is active.

        These wait for the time at which they are back, if it is known.
        """
        alone = ~active
        if links.latency is None:
            alone[links.receiver[active[links.sender]]] = False
        elif active.any():
            return over_s
        population, later = self.run.federation.population, over_s.copy()
        for i in np.flatnonzero(alone).tolist():
            back_s = population.next_change([i], over_s[i])[0]
            if math.isfinite(back_s) and not population.available([i], over_s[i], stats.round)[0]:
                later[i] = back_s
        return later

    def _mixed(
        self, tasks: Tasks, w: csr_array[Any], heard: Bools, stats: RoundStats
    ) -> tuple[Array, Floats]:
        """Return the mean (p,) of the nodes' next models, and the losses (K,) of these tasks."""
        asked, size = self.exchange.sent(self.ask, "algorithm", stats), self.run.training.x0.size
        step = self.exchange.request(asked, tasks, stats.round, tasks.weight)
        faulty = bool(self.run.faults)
        sending = replace(step, sums=False, vectors=faulty, keeps=not faulty)
        sent = self.exchange.compute(sending, self.ask.send, stats.when).each
        stats.add_metrics(sent, tasks.weight)
        everyone = len(tasks) == len(self.ids)
        if not (everyone and heard.all()):
            w = with_missing(w, heard, self.algorithm.mixing)
        mix = replace(step, owner="mixing", function="mix", up={"x": size}, ask=1, sleep_s=None)
        near: dict[str, Array] = {}
        if faulty:
            own = {name: sent[name] for name in self.ask.up}
            mix, near = replace(mix, rows=tasks.client), self._with_faults(w, tasks, own, stats)
        else:
            mix = replace(mix, mixing=w if everyone else w[tasks.client])
        total = self.exchange.compute(mix, near, stats.when).sums["x"]
        mass = self.exchange.weights(self.ids)
        if not everyone:
            others = np.setdiff1d(self.ids, tasks.client)
            stay = uncharged("mixing", "stay", {"x": size}, others, stats.round)
            stay = replace(stay, weights=mass[others])
            total = total + self.exchange.compute(stay, {}, stats.when).sums["x"]
        losses = sent.get("loss", np.full(len(tasks), np.nan))
        return total / total.dtype.type(mass.sum()), losses

    def _with_faults(
        self, w: csr_array[Any], tasks: Tasks, sent: Mapping[str, Array], stats: RoundStats
    ) -> dict[str, Array]:
        """Return sums (N, ...) where faulty nodes send wrong messages, and know their own."""
        from scipy.sparse import diags_array  # imported late, as everywhere

        wrong = self.exchange.message(sent, tasks.client, tasks.draw, stats.round)
        stays, others = diags_array(w.diagonal()).tocsr(), w.copy()
        others.setdiag(0)
        others.eliminate_zeros()  # so that a NaN reaches neighbours alone
        return {
            name: self._near(others, tasks.client, wrong[name])
            + self._near(stays, tasks.client, sent[name])
            for name in sent
        }

    def _near(self, w: csr_array[Any], ids: Ints, sent: Array) -> Array:
        """Return the sums (N, ...) of what active nodes (K,) sent."""
        if len(ids) == len(self.ids):
            return product(w, sent)
        every = np.zeros((len(self.ids), *sent.shape[1:]), sent.dtype)
        every[ids] = sent
        return product(w, every)
