"""The exchange of one Ask: what it takes the clients, the request, the reply, and the counts.

It knows no loop. What a loop of rounds does in one go (`Exchange.answer`), one of single arrivals
does in parts: it times work when it is dispatched, asks for it when its model exists, and counts it
when it arrives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rayfed.clients.request import Request
from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.errors import RunFailed
from rayfed.core.rng import Draw
from rayfed.engine.budgets import Budgets
from rayfed.engine.clock import Clock, Timing, Traffic, settle
from rayfed.engine.replies import reply_of
from rayfed.engine.run import Run
from rayfed.engine.state import STATUS, USED, RoundStats
from rayfed.executors.base import ClientFailed, Executor, Gathered
from rayfed.messages import Ask, Reply

Asker = Literal["algorithm", "selection"]


class NoReply(Exception):
    """No reply to an Ask can be used."""


class NobodyToAsk(NoReply):
    """There is no client to ask."""


@dataclass(frozen=True)
class Drawn:
    """The clients of an Ask.

    Parameters
    ----------
    ids : (K,) array of int
        Distinct clients, ascending.
    counts : (K,) array of int
        How often each was drawn.
    """

    ids: Ints
    counts: Ints

    @classmethod
    def of(cls, drawn: Ints) -> Drawn:
        """Return the distinct ids among those that were drawn, in whatever order."""
        if (drawn[1:] > drawn[:-1]).all():
            return cls(drawn, np.ones(len(drawn), dtype=np.int64))
        return cls(*np.unique(drawn, return_counts=True))

    def again(self, ids: Ints) -> Ints:
        """Return some of these clients, each as often as it was drawn."""
        return ids.repeat(self.counts[np.searchsorted(self.ids, ids)])


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
        self.listens = run.participation.selection.listens or self.budgets.listens
        owners: Mapping[Asker, Any]
        owners = {"algorithm": run.training.algorithm, "selection": run.participation.selection}
        self.owners = owners

    def answer(
        self, ask: Ask, owner: Asker, drawn: Ints, stats: RoundStats, first: int | None = None
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
        traffic = self.traffic(ask, owner)
        timing = self.clock.timing(ask, traffic, stats, clients.ids)
        wait_s = self.run.participation.deadline_s
        deadline_s = None if wait_s is None else stats.start_s + wait_s
        status, close_s = settle(
            clients.ids, timing, stats.time_s, first=first, deadline_s=deadline_s
        )
        reply = self._used(ask, owner, clients, timing, status, stats)
        self.count(ask, owner, clients.ids, timing, status, traffic, reply, stats)
        stats.time_s, stats.ask = close_s, stats.ask + 1
        if reply is None:
            raise NoReply
        if self.listened(ask, owner):
            stats.heard.append(reply)
        return reply

    def _used(
        self,
        ask: Ask,
        owner: Asker,
        clients: Drawn,
        timing: Timing,
        status: Array,
        stats: RoundStats,
    ) -> Reply | None:
        """Return the reply of the clients whose work is used, computed now; None without any."""
        used = status == USED
        if not used.any():
            return None
        request = self.request(
            ask, owner, clients, timing.steps,
            round_number=stats.round, draw=stats.round, ask_number=stats.ask,
            sleep_s=self._sleep_s(timing),
        )  # fmt: skip
        if not used.all():
            request = request.part(np.flatnonzero(used))
        when = f"round {stats.round}, time {stats.time_s:.6g} s"
        gathered = self.compute(request, ask.send, when)
        return reply_of(request, gathered, self.run.federation.population.count)

    def request(
        self,
        ask: Ask,
        owner: Asker,
        clients: Drawn,
        steps: Ints,
        *,
        round_number: int,
        draw: Draw,
        ask_number: int = 0,
        sleep_s: Floats | None = None,
    ) -> Request:
        """Return an Ask as hosts get it.

        Parameters
        ----------
        steps : (K,) array of int
            Local steps of the clients.
        round_number : int
            The round that schedules go by.
        draw : int or (K,) array of int
            Coordinate of keyed draws: the round, or the number of each client's work.
        ask_number : int
            Number of the Ask within the round.
        sleep_s : (K,) array of float, optional
            Wall-clock seconds that the actors sleep.
        """
        federation = self.run.federation
        weights = clients.counts.astype(np.float64)
        if self.run.training.weights == "size":
            weights = weights * federation.views.training.shards.mass(clients.ids)
        return Request(
            owner, ask.work, ask.up, clients.ids, weights, steps,
            federation.population.group_of(clients.ids), round_number, ask_number,
            vectors=ask.vectors, sleep_s=sleep_s, plain=ask.plain, draw=draw,
        )  # fmt: skip

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
            raise RunFailed(
                f"{when}, client {failed.client}, '{request.work}' failed:\n{failed.trace}"
            ) from failed

    def listened(self, ask: Ask, owner: Asker) -> bool:
        """Whether anything learns from the losses of an Ask's local steps."""
        return self.listens and owner == "algorithm" and ask.local

    def traffic(self, ask: Ask, owner: Asker) -> Traffic:
        """Return the bytes that each client downloads and uploads."""
        if self.run.training.algorithm.pooled:
            return Traffic(0, 0)
        down = sum(int(np.asarray(v).nbytes) for v in ask.send.values())
        itemsize = self.run.training.dtype.itemsize
        up = sum(itemsize * n if n > 1 else 8 * n for n in ask.up.values())
        return Traffic(down, up + 8 * self.listened(ask, owner))

    def count(
        self,
        ask: Ask,
        owner: Asker,
        ids: Ints,
        timing: Timing,
        status: Array,
        traffic: Traffic,
        reply: Reply | None,
        stats: RoundStats,
    ) -> None:
        """Add an Ask to the counts and the events of a round."""
        answered, late, dropped = np.bincount(status, minlength=len(STATUS)).tolist()
        counts = stats.counts
        if owner == "algorithm" and ask.clients is None:
            counts["participants"] = answered
        counts["late"] += late
        counts["dropped"] += dropped
        counts["bytes_down"] += traffic.down * len(ids)
        counts["bytes_up"] += traffic.up * (len(ids) - dropped)
        counts["local_steps"] += int(timing.steps[status == USED].sum())
        loss = np.full(len(ids), np.nan)
        if reply is not None and "loss" in reply.each:
            loss[status == USED] = reply.each["loss"]
        stats.events.append(
            {
                "round": np.full(len(ids), stats.round),
                "ask": np.full(len(ids), stats.ask),
                "client": ids,
                "start_s": np.full(len(ids), timing.start_s),
                "compute_s": timing.compute_s,
                "end_s": np.minimum(timing.end_s, timing.gone_s),
                "status": status,
                "loss": loss,
                "steps": timing.steps,
            }
        )

    def _sleep_s(self, timing: Timing) -> Floats | None:
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
