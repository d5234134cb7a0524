"""The robust rule of a run: what takes the place of the means of a reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from rayfed.clients.request import group_name
from rayfed.core.arrays import Array, Ints, under
from rayfed.core.rng import Key
from rayfed.engine.replies import WorkAnswer
from rayfed.engine.run import Run
from rayfed.messages import Ask, Reply

State = Mapping[str, Array]


class ServerRule:
    """The robust rule of one run; without one, replies stay what they are.

    All vectors of a reply are one: a rule that chooses clients chooses the same ones for each. Its
    state is that of the rule, ``rule.<client function>.<name>``.

    Parameters
    ----------
    run : Run
    """

    def __init__(self, run: Run) -> None:
        self.rule = None if run.training.algorithm.centralised else run.channel.aggregate
        self.key = Key(run.seed, "buckets")

    def asked(self, ask: Ask) -> Ask:
        """Return an Ask of the algorithm as the rule needs it."""
        return replace(ask, vectors=True) if self.rule and self.rule.sees_vectors else ask

    def labels(self, ids: Ints, round: int, number: int) -> Ints | None:
        """Return whose sums (K,) clients that are asked enter; None where there is one sum.

        Parameters
        ----------
        ids : (K,) array of int
            Distinct clients, ascending.
        round, number : int
            The round, and the Ask in it.
        """
        if self.rule is None or self.rule.before is None:
            return None
        return self.rule.before.labels(ids, self.key.sub(f"{round}/{number}"))

    def received(
        self, reply: Reply, answers: Sequence[WorkAnswer], ask: Ask, state: State
    ) -> tuple[Reply, State]:
        """Return the reply that the algorithm gets, and the state after it.

        Parameters
        ----------
        reply : Reply
            With the means of what clients sent.
        answers : sequence of WorkAnswer
            Of which it is made.
        ask : Ask
        state : mapping of str to array
        """
        if self.rule is None:
            return reply, state
        names = [name for name in ask.up if reply.mean.get(name, np.float64(0)).ndim]
        if not names:
            return reply, state
        if self.rule.sees_vectors:
            parts, weights = {name: reply.each[name] for name in names}, reply.weights
        else:
            (answer,) = answers  # buckets are refused where there may be others
            parts, weights = _buckets(answer, names)
        flat = [rows.reshape(len(rows), -1) for rows in parts.values()]
        vectors = flat[0] if len(flat) == 1 else np.concatenate(flat, axis=1)
        mine = f"rule.{ask.work}."
        kept = under(state, mine)
        outcome, now = self.rule.robust(vectors, weights, kept or self.rule.init(vectors.shape[1]))
        pieces = np.split(outcome, np.cumsum([rows.shape[1] for rows in flat])[:-1])
        means = {
            name: piece.reshape(parts[name].shape[1:])
            for name, piece in zip(names, pieces, strict=True)
        }
        each = {name: rows for name, rows in reply.each.items() if rows.ndim == 1}
        reply = replace(reply, mean={**reply.mean, **means}, each=each)
        return reply, {**state, **{mine + k: v for k, v in now.items()}}


def _buckets(answer: WorkAnswer, names: Sequence[str]) -> tuple[dict[str, Array], Array]:
    """Return the means of the buckets (G, ...) by name, and what their clients count for (G,)."""
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
