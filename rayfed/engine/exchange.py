"""The exchange: requests of tasks to hosts, and replies from their answers.

It knows no policy. A policy determines the tasks that enter an update; only those are computed.
With colluding clients one exchange becomes two: honest clients are asked first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import add as plus
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from rayfed.channel.base import Draws
from rayfed.channel.faults import Collusion, Knowledge
from rayfed.channel.faulty import honest
from rayfed.channel.faulty import sent as corrupted
from rayfed.channel.uplink import LEFT_OUT, total_name
from rayfed.clients.request import Request, group_name
from rayfed.clients.setup import DataView
from rayfed.core.arrays import Array, Bools, Floats, Ints, under
from rayfed.core.errors import RunFailed
from rayfed.core.names import called
from rayfed.core.needs import VECTORS
from rayfed.core.rng import Draw, Key
from rayfed.core.tree import add
from rayfed.engine.batteries import Batteries
from rayfed.engine.channel import ServerChannel
from rayfed.engine.clock import Clock, StepCounter, Traffic
from rayfed.engine.correction import Correction
from rayfed.engine.replies import MeanInputs, TaskAnswer, reply_of
from rayfed.engine.run import Run
from rayfed.engine.state import RoundStats
from rayfed.engine.tasks import Tasks
from rayfed.executors.base import ClientFailed, Executor, Gathered
from rayfed.messages import Ask, Reply, State
from rayfed.selection import SelectionView

Asker = Literal["algorithm", "selection"]
Compute: TypeAlias = Callable[[Request], Gathered]
_Answer: TypeAlias = tuple[dict[str, Array], dict[str, Array]]
"""Sums and scalars, as in `Gathered`, that are still changed."""


class NoReply(Exception):
    """No reply to an Ask can be used."""


class NobodyToAsk(NoReply):
    """There is no client to ask."""


class SentAsk(NamedTuple):
    """An Ask and its sender.

    Parameters
    ----------
    ask : Ask
    owner : "algorithm" or "selection"
    groups : pair of (K,) arrays of int, optional
        The clients that are asked, ascending, and the group of each, where the server wants sums
        by group or the clients have edge servers.
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
        view = run.federation.views.training
        self.shards, self.mean_weight = view.shards, self._mean_weight(view)
        self.cache: dict[str, Any] = {}  # of the selection
        self.correction = Correction(run)
        self.channel = ServerChannel(run, self.correction)
        self.colluders = Colluders(run)
        self.private, self.left_out = run.private, run.left_out
        self.batteries = Batteries(run) if run.batteries else None
        self.listens = run.participation.select.listens or self.counter.listens
        self.owners: Mapping[Asker, Any] = {
            "algorithm": run.training.algorithm, "selection": run.participation.select,
        }  # fmt: skip

    def init(self) -> State:
        """Return the state of the channel before the first round."""
        private = {} if self.private is None else self.private.init()
        return {**self.channel.init(), **private}

    def look_at(self, round_number: int) -> None:
        """See the rows of clients as they are in a round."""
        view = self.run.federation.views.training.at(round_number)
        shards, self.mean_weight = view.shards, self._mean_weight(view)
        if shards.version != self.shards.version:
            self.cache.clear()  # of sums over the sizes of all clients
        self.shards = self.counter.shards = self.correction.shards = shards

    def selection_view(
        self, round_number: int, time_s: float, wanted: int, available: Callable[[Ints], Bools],
        **more: Any,
    ) -> SelectionView:  # fmt: skip
        """Return the view of a selection at a moment; `more` are further fields of the view."""
        federation = self.run.federation
        return SelectionView(
            federation.population.count, round_number, time_s, wanted, self.run.seed, available,
            self.shards.mass, steps=self.counter.reading, graphs=federation.graphs,
            cache=self.cache, **more,
        )  # fmt: skip

    def _mean_weight(self, view: DataView) -> float:
        """Return the mean raw weight of all clients."""
        by_size = self.run.training.weights == "size"
        return view.objective.total_mass / view.objective.clients if by_size else 1.0

    # -- computing -------------------------------------------------------------------------

    def answers(
        self, asked: SentAsk, parts: Sequence[tuple[Tasks, Mapping[str, Array]]], stats: RoundStats
    ) -> list[TaskAnswer]:
        """Compute the tasks of rounds that enter one update, part by part.

        Parameters
        ----------
        asked : Asked
        parts : sequence of (Tasks, mapping of str to array)
            Tasks of one version and Ask, and what their clients download. At least one in each
            part; distinct clients, ascending.
        stats : RoundStats
            The round; the model has the version before it. The weights of tasks that began from
            earlier ones are discounted, and the mean divides by what they make. What colluding
            clients remember is in its state of the channel.
        """
        newest, requests, computes, late = stats.round - 1, [], [], []
        for tasks, send in parts:
            version, weights = int(tasks.version[0]), tasks.weight
            staleness = np.full(len(tasks), newest - version)
            if version != newest:
                weights = weights * self.run.participation.staleness.factor(staleness)
            requests.append(self.request(asked, tasks, version + 1, weights))
            computes.append(partial(self.compute, send=send, when=stats.when))
            late.append(staleness)
        if asked.coded and self.colluders.known:
            gathered, stats.channel = self.colluders.answered(requests, computes, stats.channel)
        else:
            gathered = [compute(each) for compute, each in zip(computes, requests, strict=True)]
        return [
            TaskAnswer.to(request, found, tasks.seconds, staleness)
            for request, found, (tasks, _), staleness in zip(
                requests, gathered, parts, late, strict=True
            )
        ]

    def request(self, asked: SentAsk, tasks: Tasks, draw: Draw, weights: Floats) -> Request:
        """Return tasks of distinct clients as hosts get them.

        Parameters
        ----------
        asked : Asked
        tasks : Tasks
            The Ask and the version are those of the first.
        draw : int or (K,) array of int
            Coordinate of keyed draws: one for all, or one for each.
        weights : (K,) array of float
        """
        ask, groups = asked.ask, self.run.federation.population.group_of(tasks.client)
        labels = asked.labels(tasks.client)
        up_bytes = tasks.up_bytes - 8 * self.listened(ask, asked.owner)
        return Request(
            asked.owner, ask.function, ask.up, tasks.client, weights, tasks.steps, groups,
            int(tasks.version[0]) + 1, int(tasks.ask[0]), vectors=ask.vectors,
            sleep_s=self.sleep_s(tasks), plain=ask.plain, draw=draw,
            shares=self.channel.shares(tasks.client) if asked.coded else None,
            first=self.channel.first(ask, up_bytes) if asked.coded else None,
            labels=labels, rows=None if ask.edge_of is None else labels,
        )  # fmt: skip

    def compute(self, request: Request, send: Mapping[str, Array], when: str) -> Gathered:
        """Run the client functions of a request.

        Raises
        ------
        RunFailed
            If a client function raises; `when` gives the round and the time.
        """
        try:
            return self.executor.exchange(self.run.folder, request, send)
        except ClientFailed as failed:
            centralised = self.run.training.algorithm.centralised
            names = () if centralised else self.run.federation.clients.names
            place = f"{when}, {called(np.array([failed.client]), names)}, '{request.function}'"
            raise RunFailed(f"{place} failed: {failed.reason}", failed.trace) from failed

    def sleep_s(self, tasks: Tasks) -> Floats | None:
        """Return the sleep of actors in seconds under ``clock: wall``; it decides nothing."""
        if self.run.wall_scale is None:
            return None
        unknown = np.isinf(tasks.end_s)  # on a link that is shared, for tasks computed ahead
        return np.where(unknown, tasks.compute_s, tasks.seconds) * self.run.wall_scale

    def reply(
        self, asked: SentAsk, answers: Sequence[TaskAnswer], stats: RoundStats, newest: int,
        sent: State | None = None, *, stale: bool,
    ) -> Reply:  # fmt: skip
        """Return the reply that answers make, as the channel and privacy leave it.

        Parameters are those of `reply_of`, and the version of the model.

        Raises
        ------
        NoReply
            If there are no answers, and privacy makes none of noise alone.
        """
        reply = self._mean(asked, answers, stats, newest, sent, stale=stale) if answers else None
        if self.private is not None and asked.coded and (answers or not self.private.in_shares):
            reply, stats.channel = self.private.reply(
                asked.ask, reply, stats.round, stats.ask - 1, stats.channel
            )
        if reply is None:
            raise NoReply
        return reply

    def _mean(
        self, asked: SentAsk, answers: Sequence[TaskAnswer], stats: RoundStats, newest: int,
        sent: State | None, *, stale: bool,
    ) -> Reply:  # fmt: skip
        """Return the means of answers, as the channel leaves them."""
        ask, total = asked.ask, None if stats.corrected is None else self.correction.total
        if self.private is not None and asked.coded:
            total = self.private.cohort
        for answer in answers:
            stats.add_metrics(answer.gathered.each, answer.raw)
        extra = {} if self.channel.uplink is None else self.channel.uplink.extra
        count = self.run.federation.population.count
        up, by_edge = {**ask.up, **extra}, ask.edge_of is not None
        sizes = MeanInputs(up, count, ask.plain, total, self.mean_weight, by_edge)
        if not asked.coded:
            return reply_of(answers, sizes, newest + 1, sent, stale=stale)
        for answer in answers if self.left_out else ():
            stats.squares += [answer.gathered.sums[LEFT_OUT].item(), len(answer.ids)]
        opened, wrapped = self.channel.opened(answers, ask.plain)
        stats.wrapped += wrapped
        reply = reply_of(opened, sizes, newest + 1, sent, stale=stale)
        reply, stats.channel = self.channel.received(reply, opened, ask, stats.channel, newest)
        return reply

    # -- what an Ask is --------------------------------------------------------------------

    def sent(self, ask: Ask, owner: Asker, stats: RoundStats) -> SentAsk:
        """Return an Ask of a round as its clients get it."""
        if owner != "algorithm":
            return SentAsk(ask, owner)
        self.channel.check(ask, again=stats.begun)
        stats.begun = True
        if self.channel.codes:
            ask, stats.channel = self.channel.sent(ask, stats.channel, stats.round, stats.ask)
        if self.private is not None:
            ask = self.private.sent(ask, stats.channel)
        return SentAsk(self.channel.rule.asked(ask), owner)

    def grouped(self, asked: SentAsk, clients: Ints, stats: RoundStats) -> SentAsk:
        """Return the request with the groups of its clients."""
        rule, edge_of = self.channel.rule, asked.ask.edge_of
        if edge_of is not None:
            ids = np.unique(clients)
            return asked._replace(groups=(ids, edge_of(ids)))
        groups = rule.groups(clients, stats.round, stats.ask) if asked.coded else None
        return asked if groups is None else asked._replace(groups=groups)

    def lost(self, asked: SentAsk, ids: Ints, used: Ints) -> Bools:
        """Return which replies (U,) of clients that were asked cannot be opened."""
        if asked.groups is None:
            return self.channel.lost(np.zeros_like(ids), np.zeros_like(used))
        clients, labels = asked.groups
        return self.channel.lost(labels, labels[clients.searchsorted(used)])

    def noise_alone(self, owner: Asker) -> bool:
        """Whether privacy makes a reply where no client is asked."""
        private = self.private if owner == "algorithm" else None
        return private is not None and not private.in_shares

    def silent(self, asked: SentAsk, ids: Ints, round: int) -> Bools:
        """Return a mask (K,) of clients that will not upload."""
        silent = np.zeros(len(ids), np.bool_)
        for faulty in self.run.faults if asked.coded else ():
            if faulty.fault.silent:
                silent |= faulty.among(ids, round)
        return silent

    def message(
        self, values: Mapping[str, Array], ids: Ints, draw: Draw, round: int, ask: int = 0
    ) -> dict[str, Array]:
        """Return what nodes (K,) send to others: their vectors (K, ...), wrong ones if faulty.

        `draw`, `round` and `ask` are the coordinates of keyed draws, as in `Draws`.
        """
        out, faults = dict(values), self.run.faults
        draws = Draws(Key(self.run.seed, "faults"), ids, draw, ask, round)
        for at, wrong, _ in corrupted(faults, values, {}, draws, round):
            for name, rows in wrong.items():
                out[name] = out[name].copy()
                out[name][at] = rows
        return out

    def weights(self, ids: Ints) -> Floats:
        """Return the raw weights (K,) of clients that are drawn once."""
        return self.shards.mass(ids) if self.run.training.weights == "size" else np.ones(len(ids))

    def listened(self, ask: Ask, owner: Asker) -> bool:
        """Whether anything learns from the losses of an Ask's local steps."""
        return self.listens and owner == "algorithm" and ask.local

    def traffic(self, asked: SentAsk, ids: Ints, state: State, version: int | Ints) -> Traffic:
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
        if ask.share is not None:
            sizes = sizes.times(ask.share(ids))
        up = sizes.up + 8 * self.listened(ask, asked.owner)
        return Traffic(sizes.down, up, sizes.turns)

    def check(self, ask: Ask, owner: Asker) -> None:
        """Refuse an Ask for a client function that does not exist, or for vectors it may not see.

        Raises
        ------
        RunFailed
        """
        asker = self.owners[owner]
        if not callable(getattr(asker, ask.function, None)):
            raise RunFailed(
                f"{type(asker).__name__} has no method '{ask.function}', which its Ask names"
            )
        if ask.vectors and not (owner == "algorithm" and VECTORS in asker.needs):
            raise RunFailed(f"'{ask.function}' asks for vectors; add VECTORS to `needs`")


class Colluders:
    """The colluding clients of one run, which know the honest replies of an update.

    The honest are asked first, for sums of their vectors and of the squares of these; the others in
    a second exchange. What colluding clients send is the same vector for all of them, late ones
    too, which is added to the sums here: a host need not know it. Where no honest reply enters the
    update, what they would have sent themselves stands for the honest replies.

    Their state is ``fault.<number>.<client function>.<name>`` in that of the channel.

    Parameters
    ----------
    run : Run
    """

    def __init__(self, run: Run) -> None:
        self.every = run.faults
        self.known = [faulty for faulty in self.every if isinstance(faulty.fault, Collusion)]
        self.key, self.dtype = Key(run.seed, "faults"), run.training.dtype

    def answered(
        self, requests: Sequence[Request], computes: Sequence[Compute], state: State
    ) -> tuple[list[Gathered], State]:
        """Return the answers to the requests of an update, and the state after them.

        Parameters
        ----------
        requests : sequence of Request
            Of one Ask of the algorithm.
        computes : sequence of callable
            Each computes its request for some of the clients.
        state : mapping of str to array
            Of the channel.
        """
        asked = list(zip(requests, computes, strict=True))
        colluding = [self._colluding(request) for request in requests]
        if not any(len(places) for group in colluding for places in group):
            return [compute(request) for request, compute in asked], state
        sources = [np.flatnonzero(honest(self.every, request.ids)) for request in requests]
        truthful = any(map(len, sources))
        if not truthful:
            sources = list(map(_together, colluding))
        active = [k for k in range(len(self.known)) if any(len(places[k]) for places in colluding)]
        sees = any(VECTORS in self.known[k].fault.needs for k in active)
        observed = [
            _some(compute, replace(request, squares=True, vectors=request.vectors or sees), at)
            for (request, compute), at in zip(asked, sources, strict=True)
        ]
        known = _Observed(requests, sources, observed)
        answers = []
        for (request, compute), at, honest_part, group in zip(
            asked, sources, observed, colluding, strict=True
        ):
            rest = np.setdiff1d(np.arange(len(request.ids)), at)
            others = _some(compute, _without_weight(request, _together(group)), rest)
            answers.append(_joined(request, (at, honest_part), (rest, others), summed=truthful))
        now = dict(state)
        for k in active:
            now |= self._add(requests, answers, known, k, [places[k] for places in colluding], now)
        return [Gathered(*answer) for answer in answers], now

    def _colluding(self, request: Request) -> list[Ints]:
        """Return the places of colluding clients in a request, by fault."""
        ids, round = request.ids, request.round
        return [np.flatnonzero(faulty.among(ids, round)) for faulty in self.known]

    def _add(
        self, requests: Sequence[Request], answers: Sequence[_Answer], known: _Observed,
        number: int, places: Sequence[Ints], state: State,
    ) -> dict[str, Array]:  # fmt: skip
        """Add uploads of the colluding clients of a fault to answers; return their next state.

        `places` are theirs in each request.
        """
        faulty, function = self.known[number], requests[0].function
        fault, now = faulty.fault, dict[str, Array]()
        assert isinstance(fault, Collusion)
        for name in known.vectors(requests[0].up):
            knowledge = known.knowledge(name, sum(map(len, places)))
            prefix = f"fault.{faulty.number}.{function}.{name}."
            key = self.key.sub(f"{faulty.number}/{function}/{name}")
            size = knowledge.mean.size
            first_state = under(state, prefix) or fault.init(size, key.uniforms([0], size)[0])
            vector, after = fault.sent(knowledge, first_state)
            now |= {prefix + k: v for k, v in after.items()}
            wrong = vector.astype(self.dtype).reshape(known.shape(name))
            for request, (sums, each), at in zip(requests, answers, places, strict=True):
                if not len(at):
                    continue
                for key_name, weight in _shares(request, name, at):
                    share = wrong * wrong.dtype.type(weight)
                    sums[key_name] = sums[key_name] + share if key_name in sums else share
                if name in each:
                    each[name][at] = wrong
        return now


class _Observed:
    """Knowledge of colluding clients about an update.

    Parameters
    ----------
    requests : sequence of Request
    places : sequence of (H,) array of int
        Places in each request of the clients that they know.
    gathered : sequence of Gathered
        Sums of their vectors and of the squares of these.
    """

    def __init__(
        self, requests: Sequence[Request], places: Sequence[Ints], gathered: Sequence[Gathered]
    ) -> None:
        parts = [part for part in zip(requests, places, gathered, strict=True) if len(part[1])]
        self.found = [found for _, _, found in parts]
        self.weight = sum(float(request.weights[at].sum()) for request, at, _ in parts)
        ids = np.concatenate([request.ids[at] for request, at, _ in parts])
        order = np.argsort(ids, kind="stable")
        self.ids = ids[order]
        self.order = slice(None) if np.array_equal(self.ids, ids) else order  # which copies rows

    def vectors(self, up: Mapping[str, int]) -> list[str]:
        """Return the names of the vectors in client uploads."""
        return [name for name in up if f"{name}^2" in self.found[0].sums]

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a vector."""
        return self.found[0].sums[f"{name}^1"].shape

    def knowledge(self, name: str, faulty: int) -> Knowledge:
        """Return the knowledge of a number of colluding clients about a vector."""
        mean, square = (self._mean(f"{name}^{power}") for power in (1, 2))
        vectors = None
        if name in self.found[0].each:
            rows = [found.each[name] for found in self.found]
            joined = rows[0] if len(rows) == 1 else np.concatenate(rows)
            vectors = joined.reshape(len(joined), -1)[self.order]
            vectors.flags.writeable = False  # they may be the rows that the server gets
        return Knowledge(mean, square, len(self.ids), faulty, vectors, self.ids)

    def _mean(self, name: str) -> Array:
        total = reduce(plus, [found.sums[name] for found in self.found])
        return np.asarray((total / self.weight).reshape(-1))


def _together(places: Sequence[Ints]) -> Ints:
    """Return places of several faults with distinct clients as one array, ascending."""
    return np.sort(np.concatenate(places))


def _some(compute: Compute, request: Request, at: Ints) -> Gathered:
    """Compute a request for its clients at some places; nothing if there are none."""
    return compute(request.part(at)) if len(at) else Gathered({}, {})


def _without_weight(request: Request, colluding: Ints) -> Request:
    """Return the request in which colluding clients weigh nothing."""
    weights = request.weights.copy()
    weights[colluding] = 0
    shares = None if request.shares is None else request.shares.copy()
    if shares is not None:
        shares[colluding] = 0
    return replace(request, weights=weights, shares=shares)


def _joined(
    request: Request, first: tuple[Ints, Gathered], second: tuple[Ints, Gathered], *, summed: bool
) -> _Answer:
    """Return the answers to two parts of a request as one.

    If the first is not `summed`, its vectors do not count.
    """
    each: dict[str, Array] = {}
    for at, gathered in (first, second):
        for name, rows in gathered.each.items():
            if rows.ndim == 1 or request.vectors:
                full = np.empty((len(request.ids), *rows.shape[1:]), rows.dtype)
                each.setdefault(name, full)[at] = rows
    sums = first[1].sums
    if not summed:
        sums = {name: rows for name, rows in sums.items() if name == LEFT_OUT}
    return dict(add(sums, second[1].sums)), each


def _shares(request: Request, name: str, at: Ints) -> Iterator[tuple[str, float]]:
    """Yield the sums that clients at these places enter, and with which weight."""
    weights: Floats = request.weights[at]
    yield name, float(weights.sum())
    if request.shares is not None:
        yield total_name(name), float(request.shares[at].sum())
    if request.labels is not None:
        for label in np.unique(request.labels[at]).tolist():
            yield group_name(name, label), float(weights[request.labels[at] == label].sum())
