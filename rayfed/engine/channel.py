"""The server's end of the channel: coding and charging of messages, decoding of replies.

Memories, secure sums and robust rules are at this end; noise is in `rayfed.channel.private_mean`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rayfed.channel.base import Codec, Memory
from rayfed.channel.uplink import Uplink, total_name
from rayfed.clients.request import group_name
from rayfed.core.arrays import Array, Bools, Floats, Ints, located, under
from rayfed.core.errors import RunFailed
from rayfed.core.needs import VECTORS
from rayfed.core.rng import Key
from rayfed.core.shares import at_least
from rayfed.engine.clock import Traffic
from rayfed.engine.correction import Correction
from rayfed.engine.replies import TaskAnswer
from rayfed.engine.run import Run
from rayfed.messages import Ask, Reply, State

FEWEST = 2
"""Replies that make a sum; one is a single vector."""
_NONE = np.empty(0, dtype=np.int64)


class ServerChannel:
    """The server's end of the channel of one run.

    Its state is what memories keep, ``up.name`` and ``down.name``; and, where it matters who has
    replied before, the `clients` that have, ascending, and the `versions` of the model that they
    started from the last time.

    Parameters
    ----------
    run : Run
    correction : Correction
        It knows what clients count for in F.

    Attributes
    ----------
    codes : bool
        Whether anything goes through the channel.
    """

    def __init__(self, run: Run, correction: Correction) -> None:
        self.label, self.correction = run.label, correction
        self.stale = run.participation.late == "stale"
        self.uplink, self.downlink = run.uplink(), run.downlink()
        self.codes = self.uplink is not None or self.downlink is not None
        self.itemsize = run.training.dtype.itemsize
        self.memory = None if self.uplink is None else self.uplink.memory
        self.secure = None if self.uplink is None else self.uplink.secure
        self.fewest = FEWEST if run.private is None else 1  # noise hides one client, too
        if self.uplink is not None and self.uplink.noise:
            self.fewest = self.uplink.survivors  # fewer add too little noise, whoever was asked
        down = self.downlink is not None and self.downlink.codec.memory is not None
        self.rule = ServerRule(run)
        self.exact_first = self.memory is not None and self.memory.exact_first
        self.knows_clients = down or self.exact_first

    def init(self) -> State:
        """Return the state before the first round, without replies."""
        return {"clients": _NONE, "versions": _NONE} if self.knows_clients else {}

    # -- on the way down -------------------------------------------------------------------

    def sent(self, ask: Ask, state: State, round: int, number: int = 0) -> tuple[Ask, State]:
        """Return an Ask of the algorithm with the decoded vectors, and the next state."""
        if self.downlink is None:
            return ask, state
        before = under(state, "down.")
        send, now = self.downlink.sent(ask.send, before, round, number)
        return replace(ask, send=send), {**state, **{f"down.{k}": v for k, v in now.items()}}

    def traffic(self, ask: Ask, ids: Ints, state: State, version: int | Ints) -> Traffic:
        """Return the bytes that clients (K,) download and upload for an Ask of the algorithm.

        Parameters
        ----------
        version : int or (K,) array of int
            Of the model that they start from.
        """
        had = self._versions(ids, state) if self.knows_clients else np.full(len(ids), -1)
        extra = 0 if self.uplink is None else self.uplink.bytes_down
        turns = 0 if self.secure is None else self.secure.turns
        return Traffic(self._down(ask, had, version) + extra, self._up(ask, had < 0), turns)

    def _down(self, ask: Ask, had: Ints, version: int | Ints) -> int | Ints:
        if self.downlink is None:
            return ask.bytes_down
        if self.downlink.codec.memory is None:
            return self.downlink.bytes_down(ask.send)
        exact = self.downlink.codec.memory.exact_first
        missed = np.where((had < 0) & exact, -1, version - had)  # from version -1 on, if coded
        kinds = {m: self.downlink.bytes_down(ask.send, None if m < 0 else m)
                 for m in set(missed.tolist())}  # fmt: skip
        return np.array([kinds[m] for m in missed.tolist()], dtype=np.int64)

    def _up(self, ask: Ask, new: Bools) -> int | Ints:
        if self.uplink is None:
            return ask.bytes_up(self.itemsize)
        coded = self.uplink.bytes_up(ask)
        if not self.exact_first:
            return coded
        return np.where(new, self.uplink.bytes_up(ask, first=True), coded)

    def _versions(self, ids: Ints, state: State) -> Ints:
        """Return the versions (K,) that clients started from the last time; -1 for new ones."""
        known, at = located(ids, state["clients"])
        versions = np.full(len(ids), -1)
        versions[known] = state["versions"][at]
        return versions

    # -- on the way up ---------------------------------------------------------------------

    def shares(self, ids: Ints) -> Floats | None:
        """Return the weights (K,) of clients in F, where a memory at the server takes them."""
        if self.memory is None or not self.memory.at_server:
            return None
        return np.asarray(self.correction.raw(ids) / self.correction.total)

    def first(self, ask: Ask, up_bytes: Ints) -> Bools | None:
        """Return a mask (K,) of clients charged for an uncoded first upload."""
        if self.uplink is None or not self.exact_first:
            return None
        return np.asarray(up_bytes != self.uplink.bytes_up(ask))

    def opened(
        self, answers: Sequence[TaskAnswer], plain: tuple[str, ...]
    ) -> tuple[list[TaskAnswer], int]:
        """Return answers with secure sums opened, and the number of wrapped coordinates."""
        if self.uplink is None or self.secure is None:
            return list(answers), 0
        out, wrapped = [], 0
        for answer in answers:
            sums, count = self._found(self.uplink, answer, plain)
            out.append(answer._replace(gathered=answer.gathered._replace(sums=sums)))
            wrapped += count
        return out, wrapped

    def _found(
        self, uplink: Uplink, answer: TaskAnswer, plain: tuple[str, ...]
    ) -> tuple[dict[str, Array], int]:
        """Return the sums of an answer; of those by group, if there are any."""
        sums = answer.gathered.sums
        if answer.labels is None:
            return uplink.opened(sums, plain)
        labels = np.unique(answer.labels).tolist()
        parts = {name: [group_name(name, label) for label in labels] for name in sums}
        arrived = [name for name, groups in parts.items() if groups[0] in sums]
        groups = {group: sums[group] for name in arrived for group in parts[name]}
        found, count = uplink.opened(groups, ())
        for name in arrived:
            found[name] = np.sum([found[group] for group in parts[name]], axis=0)
        return found, count

    def lost(self, of_asked: Ints, of_used: Ints) -> Bools:
        """Return which replies (U,) enter a secure sum that too few have replied for.

        Parameters
        ----------
        of_asked, of_used : (K,) and (U,) array of int
            The number of the sum that each client who was asked enters, and each reply.
        """
        assert self.secure is not None
        asked = np.bincount(of_asked)
        used = np.bincount(of_used, minlength=len(asked))
        few = used < np.maximum(at_least(self.secure.threshold, asked), self.fewest)
        return np.asarray(few[of_used])

    def received(
        self, reply: Reply, answers: Sequence[TaskAnswer], ask: Ask, state: State, newest: int
    ) -> tuple[Reply, State]:
        """Return the reply that an algorithm gets, and the state after it.

        Parameters
        ----------
        reply : Reply
            With the means of what clients sent.
        answers : sequence of TaskAnswer
            Of which it is made; they say how stale each is.
        ask : Ask
        state : mapping of str to array
        newest : int
            Version of the model.
        """
        if self.knows_clients:
            ids = np.concatenate([answer.ids for answer in answers])
            stale = np.concatenate([answer.staleness for answer in answers])
            state = {**state, **self._learnt(state, ids, newest - stale)}
        if self.uplink is not None and self.memory is not None and self.memory.at_server:
            reply, state = self._remembered(reply, answers, state, self.uplink, self.memory)
        return self.rule.received(reply, answers, ask, state)

    @staticmethod
    def _remembered(
        reply: Reply, answers: Sequence[TaskAnswer], state: State, uplink: Uplink, memory: Memory
    ) -> tuple[Reply, State]:
        """Return a reply after the server's error memory, and the next state."""
        mean, now = dict(reply.mean), dict(state)
        for name, n in uplink.up.items():
            totals = [answer.gathered.sums[total_name(name)] for answer in answers]
            total = np.sum(totals, axis=0, dtype=totals[0].dtype)
            before = state.get(f"up.{name}", np.zeros(n, total.dtype)).reshape(total.shape)
            got = mean.get(name, total)
            mean[name], now[f"up.{name}"] = memory.received(got, total, before)
        return replace(reply, mean=mean), now

    def _learnt(self, state: State, ids: Ints, versions: Ints) -> dict[str, Ints]:
        clients = np.union1d(state["clients"], ids)
        newest = np.full(len(clients), -1)
        newest[np.searchsorted(clients, state["clients"])] = state["versions"]
        np.maximum.at(newest, np.searchsorted(clients, ids), versions)
        return {"clients": clients, "versions": newest}

    def check(self, ask: Ask, again: bool) -> None:
        """Refuse a second Ask of a round where memories allow one.

        Parameters
        ----------
        again : bool
            Whether the algorithm has asked in the round already.

        Raises
        ------
        RunFailed
        """
        if not again:
            return
        stateful: Memory | Codec | None = self.memory
        if self.uplink is not None and self.uplink.initial:
            stateful = stateful or self.uplink.codec
        if self.downlink is not None:
            stateful = stateful or self.downlink.codec.memory
        text = f"is for one Ask in a round, and '{self.label}' asks again ('{ask.function}')"
        if stateful is not None:
            raise RunFailed(f"'{stateful.name}' {text}; leave it out")
        if self.stale and ask.local:
            raise RunFailed(f"late: stale {text}; give drop")


class ServerRule:
    """The robust rule of one run; without one, replies pass unchanged.

    All vectors of a reply are one: a rule that chooses clients chooses the same ones for each. Its
    state is that of the rule, ``rule.<client function>.<name>``. With a rule that is new after
    round r it is ``rule<r>.<client function>.<name>``.

    Parameters
    ----------
    run : Run
    """

    def __init__(self, run: Run) -> None:
        self.rule = run.travels.aggregate
        self.key = Key(run.seed, "buckets")
        self.root = f"rule{run.channel.since or ''}."

    def asked(self, ask: Ask) -> Ask:
        """Return an Ask of the algorithm as the rule needs it."""
        return replace(ask, vectors=True) if self.rule and VECTORS in self.rule.needs else ask

    def groups(self, clients: Ints, round: int, number: int) -> tuple[Ints, Ints] | None:
        """Return the clients of tasks (K,) and their groups; None where there is one sum.

        Parameters
        ----------
        clients : (W,) array of int
            In any order, some of them perhaps twice; they are returned ascending.
        round, number : int
            The round, and the Ask in it.
        """
        if self.rule is None or self.rule.before is None:
            return None
        ids = np.unique(clients)
        labels = self.rule.before.labels(ids, self.key.sub(f"{round}/{number}"))
        return None if labels is None else (ids, labels)

    def received(
        self, reply: Reply, answers: Sequence[TaskAnswer], ask: Ask, state: State
    ) -> tuple[Reply, State]:
        """Return the reply that the algorithm gets, and the state after it.

        Parameters
        ----------
        reply : Reply
            With the means of what clients sent.
        answers : sequence of TaskAnswer
            Of which it is made.
        ask : Ask
        state : mapping of str to array
        """
        state = {k: v for k, v in state.items() if k[:4] != "rule" or k.startswith(self.root)}
        if self.rule is None:
            return reply, state
        names = [name for name in ask.up if reply.mean.get(name, np.float64(0)).ndim]
        if not names:
            return reply, state
        if VECTORS in self.rule.needs:
            parts, weights = {name: reply.each[name] for name in names}, reply.weights
            counted = np.concatenate([answer.weights for answer in answers])
            if (counted != weights).any():  # a mean adds up late vectors times their discount
                parts = {name: _times(counted / weights, rows) for name, rows in parts.items()}
        else:
            (answer,) = answers  # buckets are refused where there may be others
            parts, weights = _buckets(answer, names)
        flat = [rows.reshape(len(rows), -1) for rows in parts.values()]
        vectors = flat[0] if len(flat) == 1 else np.concatenate(flat, axis=1)
        prefix = f"{self.root}{ask.function}."
        before = under(state, prefix) or self.rule.init(vectors.shape[1])
        outcome, now = self.rule.robust(vectors, weights, before)
        pieces = np.split(outcome, np.cumsum([rows.shape[1] for rows in flat])[:-1])
        means = {
            name: piece.reshape(parts[name].shape[1:])
            for name, piece in zip(names, pieces, strict=True)
        }
        each = {name: rows for name, rows in reply.each.items() if rows.ndim == 1}
        reply = replace(reply, mean={**reply.mean, **means}, each=each)
        return reply, {**state, **{prefix + k: v for k, v in now.items()}}


def _times(factors: Floats, rows: Array) -> Array:
    """Return rows (K, ...) times factors (K,)."""
    by = factors.astype(rows.dtype).reshape(-1, *[1] * (rows.ndim - 1))
    return np.asarray(rows * by)


def _buckets(answer: TaskAnswer, names: Sequence[str]) -> tuple[dict[str, Array], Array]:
    """Return bucket means (G, ...) by name and bucket weights for (G,)."""
    assert answer.labels is not None
    labels, place = np.unique(answer.labels, return_inverse=True)
    weights = np.bincount(place, answer.weights)
    sums = answer.gathered.sums
    means = {}
    for name in names:
        rows = np.stack([sums[group_name(name, label)] for label in labels.tolist()])
        by = weights.astype(rows.dtype).reshape(-1, *[1] * (rows.ndim - 1))
        means[name] = rows / by
    return means, weights
