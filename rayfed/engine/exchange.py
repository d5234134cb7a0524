"""The exchange: works are requested from hosts, and what comes back becomes a reply.

It knows no policy. A policy says which works enter an update; only those are computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rayfed.channel.uplink import LEFT_OUT
from rayfed.clients.request import Request
from rayfed.core.arrays import Array, Bools, Floats, Ints
from rayfed.core.errors import RunFailed
from rayfed.core.names import called
from rayfed.core.rng import Draw
from rayfed.engine.channel import ServerEnd
from rayfed.engine.clock import Clock, StepCounter, Traffic
from rayfed.engine.collusion import Colluders
from rayfed.engine.correction import Correction
from rayfed.engine.replies import MeanOf, WorkAnswer, reply_of
from rayfed.engine.rule import ServerRule
from rayfed.engine.run import Run
from rayfed.engine.state import RoundStats
from rayfed.engine.works import Works
from rayfed.executors.base import ClientFailed, Executor, Gathered
from rayfed.messages import Ask, Reply, State

Asker = Literal["algorithm", "selection"]


@dataclass(frozen=True)
class Asked:
    """An Ask, and who asks it.

    Parameters
    ----------
    ask : Ask
    owner : "algorithm" or "selection"
    groups : pair of (K,) arrays of int, optional
        The clients that are asked, ascending, and the group of each, where the server wants sums
        by group.
    """

    ask: Ask
    owner: Asker
    groups: tuple[Ints, Ints] | None = None

    @property
    def coded(self) -> bool:
        """Whether it goes through the channel."""
        return self.owner == "algorithm"

    def labels(self, ids: Ints) -> Ints | None:
        """Return the group (K,) of some of the clients that are asked; None if they have none."""
        return None if self.groups is None else self.groups[1][self.groups[0].searchsorted(ids)]


class Exchange:
    """Carries the Asks of one run to its clients.

    Parameters
    ----------
    run : Run
        What is run.
    executor : Executor
        Where the clients live; the run is open there under its folder's name.
    """

    def __init__(self, run: Run, executor: Executor) -> None:
        self.run, self.executor = run, executor
        self.counter = StepCounter(run)
        self.clock = Clock(run, self.counter)
        self.shards, self.growth = run.federation.views.training.shards, 1.0
        self.correction = Correction(run)
        self.channel = ServerEnd(run, self.correction)
        self.rule = ServerRule(run)
        self.colluders = Colluders(run)
        self.private = run.private
        self.listens = run.participation.select.listens or self.counter.listens
        self.owners: Mapping[Asker, Any] = {
            "algorithm": run.training.algorithm, "selection": run.participation.select,
        }  # fmt: skip

    def init(self) -> State:
        """Return the state of the channel before the first round."""
        private = {} if self.private is None else self.private.init()
        return {**self.channel.init(), **private}

    def look_at(self, round_number: int) -> bool:
        """See the rows of clients as they are in a round; return whether they have changed."""
        view = self.run.federation.views.training.at(round_number)
        shards, self.growth = view.shards, view.objective.growth
        changed = shards.version != self.shards.version
        self.shards = self.counter.shards = self.correction.shards = shards
        return changed

    # -- computing -------------------------------------------------------------------------

    def answer(
        self, asked: Asked, works: Works, send: Mapping[str, Array], stats: RoundStats
    ) -> WorkAnswer:
        """Compute works of one version and Ask of rounds.

        Parameters
        ----------
        asked : Asked
        works : Works
            At least one; distinct clients, ascending.
        send : mapping of str to array
            What they download.
        stats : RoundStats
            The round; the model has the version before it. The weights of works that began from
            earlier ones are discounted, and the mean divides by what they make. What colluding
            clients remember is in its state of the channel.
        """
        version, weights, newest = int(works.version[0]), works.weight, stats.round - 1
        staleness = np.full(len(works), newest - version)
        if version != newest:
            weights = weights * self.run.participation.staleness.factor(staleness)
        request = self.request(asked, works, version + 1, weights)
        if asked.coded and self.colluders.known:
            gathered, stats.channel = self.colluders.answered(
                request, lambda part: self.compute(part, send, stats.when), stats.channel
            )
        else:
            gathered = self.compute(request, send, stats.when)
        return WorkAnswer.to(request, gathered, works.seconds, staleness)

    def request(self, asked: Asked, works: Works, draw: Draw, weights: Floats) -> Request:
        """Return works of distinct clients as hosts get them.

        Parameters
        ----------
        asked : Asked
        works : Works
            The Ask and the version are those of the first.
        draw : int or (K,) array of int
            Coordinate of keyed draws: one for all, or one for each.
        weights : (K,) array of float
        """
        ask, groups = asked.ask, self.run.federation.population.group_of(works.client)
        up_bytes = works.up_bytes - 8 * self.listened(ask, asked.owner)
        return Request(
            asked.owner, ask.work, ask.up, works.client, weights, works.steps, groups,
            int(works.version[0]) + 1, int(works.ask[0]), vectors=ask.vectors,
            sleep_s=self.sleep_s(works), plain=ask.plain, draw=draw,
            shares=self.channel.shares(works.client) if asked.coded else None,
            first=self.channel.first(ask, up_bytes) if asked.coded else None,
            labels=asked.labels(works.client),
        )  # fmt: skip

    def compute(self, request: Request, send: Mapping[str, Array], when: str) -> Gathered:
        """Run the client functions of a request.

        Raises
        ------
        RunFailed
            If a client function raises; `when` says in which round and at what time.
        """
        try:
            return self.executor.exchange(self.run.folder, request, send)
        except ClientFailed as failed:
            centralised = self.run.training.algorithm.centralised
            names = () if centralised else self.run.federation.clients.names
            who = f"{when}, {called(np.array([failed.client]), names)}, '{request.work}'"
            raise RunFailed(f"{who} failed: {failed.reason}", failed.trace) from failed

    def sleep_s(self, works: Works) -> Floats | None:
        """Return how long the actors sleep under ``clock: wall``; it decides nothing."""
        if self.run.wall_scale is None:
            return None
        unknown = np.isinf(works.end_s)  # on a link that is shared, for works computed ahead
        return np.where(unknown, works.compute_s, works.seconds) * self.run.wall_scale

    def reply(
        self, asked: Asked, answers: Sequence[WorkAnswer], stats: RoundStats, newest: int,
        sent: State | None = None, *, stale: bool, total: float | None = None,
    ) -> Reply:  # fmt: skip
        """Return the reply that answers make, as the channel leaves it.

        Parameters are those of `reply_of`, and the version of the model.
        """
        ask, count = asked.ask, self.run.federation.population.count
        beside = {} if self.channel.uplink is None else self.channel.uplink.beside
        sizes = MeanOf({**ask.up, **beside}, count, ask.plain, total, self.growth)
        for answer in answers if asked.coded and self.run.left_out else ():
            stats.squares += [answer.gathered.sums[LEFT_OUT].item(), len(answer.ids)]
        if asked.coded and self.channel.codes:
            answers, wrapped = self.channel.opened(answers, ask.plain)
            stats.wrapped += wrapped
        reply = reply_of(answers, sizes, newest + 1, sent, stale=stale)
        if asked.coded and self.channel.codes:
            reply, stats.channel = self.channel.received(reply, answers, stats.channel, newest)
        if asked.coded:
            reply, stats.channel = self.rule.received(reply, answers, ask, stats.channel)
        return reply

    # -- what an Ask is --------------------------------------------------------------------

    def silent(self, asked: Asked, ids: Ints, round: int) -> Bools:
        """Return which clients (K,) will not send what they are asked for."""
        silent = np.zeros(len(ids), np.bool_)
        for faulty in self.run.faults if asked.coded else ():
            if faulty.fault.silent:
                silent |= faulty.among(ids, round)
        return silent

    def weights(self, ids: Ints) -> Floats:
        """Return the raw weights (K,) of clients that are drawn once."""
        return self.shards.mass(ids) if self.run.training.weights == "size" else np.ones(len(ids))

    def listened(self, ask: Ask, owner: Asker) -> bool:
        """Whether anything learns from the losses of an Ask's local steps."""
        return self.listens and owner == "algorithm" and ask.local

    def traffic(self, asked: Asked, ids: Ints, state: State, version: int | Ints) -> Traffic:
        """Return the bytes that clients (K,) download and upload.

        Parameters
        ----------
        asked : Asked
        ids : (K,) array of int
        state : mapping of str to array
            Of the server's end of the channel.
        version : int or (K,) array of int
            Of the model that they start from.
        """
        if self.run.training.algorithm.centralised:
            return Traffic(0, 0)
        ask = asked.ask
        if asked.coded and self.channel.codes:
            sizes = self.channel.traffic(ask, ids, state, version)
        else:
            sizes = Traffic(ask.bytes_down, ask.bytes_up(self.run.training.dtype.itemsize))
        up = sizes.up + 8 * self.listened(ask, asked.owner)
        return Traffic(sizes.down, up, sizes.turns)

    def check(self, ask: Ask, owner: Asker) -> None:
        """Refuse an Ask for a client function that does not exist, or for vectors it may not see.

        Raises
        ------
        RunFailed
        """
        asker = self.owners[owner]
        if not callable(getattr(asker, ask.work, None)):
            raise RunFailed(
                f"{type(asker).__name__} has no method '{ask.work}', which its Ask names"
            )
        if ask.vectors and not (owner == "algorithm" and asker.sees_vectors):
            raise RunFailed(f"'{ask.work}' asks for vectors; declare `sees_vectors`")
