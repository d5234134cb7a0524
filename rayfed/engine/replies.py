"""Replies: sums of the hosts become means here, and only here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from rayfed.clients.request import GROUP, Request, group_name
from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.tree import Sums, add, tree_sum
from rayfed.executors.base import Gathered
from rayfed.messages import Groups, Reply, State

_NONE = np.empty(0, dtype=np.int64)


class TaskAnswer(NamedTuple):
    """The summed uploads of tasks of distinct clients.

    Parameters
    ----------
    ids, steps, staleness : (K,) array of int
    raw, weights : (K,) array of float
        What the mean divides by, and with which weights the sums were formed.
    seconds : (K,) array of float
        Virtual seconds that each took.
    gathered : Gathered
    round : int
        The round, from 1, by whose schedules they worked.
    labels : (K,) array of int, optional
        The groups by which vectors were also added up, if the server chose them.
    """

    ids: Ints
    steps: Ints
    staleness: Ints
    raw: Floats
    weights: Floats
    seconds: Floats
    gathered: Gathered
    round: int
    labels: Ints | None = None

    @classmethod
    def to(
        cls, request: Request, gathered: Gathered, seconds: Floats | None = None,
        staleness: Ints | None = None,
    ) -> TaskAnswer:  # fmt: skip
        """Return the answer to one request without staleness discounts."""
        return cls(
            request.ids, request.steps, _NONE if staleness is None else staleness, request.weights,
            request.weights, np.empty(0) if seconds is None else seconds, gathered, request.round,
            request.labels,
        )  # fmt: skip

    @property
    def losses(self) -> Floats:
        """Mean losses over the local steps (K,); NaN where none are reported."""
        loss = self.gathered.each.get("loss")
        return np.full(len(self.ids), np.nan) if loss is None else loss

    def scalars(self, population: int) -> Reply:
        """Return the scalars alone, for those that learn from losses."""
        return Reply(
            self.ids, self.weights, {}, self.gathered.each, self.steps, population,
            round=self.round, staleness=self.staleness, seconds=self.seconds,
        )  # fmt: skip


class MeanInputs(NamedTuple):
    """The further inputs of a mean besides the answers.

    Parameters
    ----------
    up : mapping of str to int
        What clients upload.
    plain : tuple of str
        Vectors that are added up without weights.
    population : int
        Number N of clients.
    total : float, optional
        What weighted sums are divided by; the sum of the raw weights if None.
    mean_weight : float
        See `Reply`.
    by_edge : bool
        Whether the reply has means by edge server.
    """

    up: Mapping[str, int]
    population: int
    plain: tuple[str, ...] = ()
    total: float | None = None
    mean_weight: float = 1.0
    by_edge: bool = False


def reply_of(
    answers: Sequence[TaskAnswer],
    sizes: MeanInputs,
    round_number: int,
    sent: State | None = None,
    *,
    stale: bool = False,
) -> Reply:
    """Return the reply that several answers make: means of vectors, and scalars as they are.

    Within an answer the sum has its fixed shape over the clients' ids; answers are added in their
    order, which the timeline alone decides.

    Parameters
    ----------
    answers : sequence of TaskAnswer
        At least one.
    sizes : MeanInputs
    round_number : int
        Number of the round or update, from 1, by which schedules go.
    sent : mapping of str to array, optional
        What all clients downloaded, if they got the same and the server function may know.
    stale : bool
        Whether the reply gives the staleness of each.
    """
    sums = reduce(add, [_sums(answer, sizes) for answer in answers])
    one = answers[0] if len(answers) == 1 else _joined(answers)
    total = float(one.raw.sum()) if sizes.total is None else sizes.total
    mean: dict[str, Any] = {
        name: _divided(sums[name], len(one.raw) if name in sizes.plain else total)
        for name in sizes.up
        if name in sums
    }
    grouped = GROUP in sizes.up or sizes.by_edge
    groups = _groups(answers[0], sizes) if grouped else Groups.empty()
    return Reply(
        one.ids, one.raw, mean, one.gathered.each, one.steps, sizes.population, groups,
        round_number, one.staleness if stale else _NONE, one.seconds, sent or {},
        sizes.mean_weight,
    )  # fmt: skip


def _joined(answers: Sequence[TaskAnswer]) -> TaskAnswer:
    """Return the clients of several answers one after the other, without their sums."""
    columns = ("ids", "steps", "staleness", "raw", "weights", "seconds")
    found: dict[str, Any] = {
        name: np.concatenate([getattr(answer, name) for answer in answers]) for name in columns
    }
    each = {
        name: np.concatenate([answer.gathered.each[name] for answer in answers])
        for name in answers[0].gathered.each
    }
    return answers[0]._replace(**found, gathered=Gathered({}, each))


def _sums(answer: TaskAnswer, sizes: MeanInputs) -> Sums:
    """Return the sums of the vectors and of the scalars that are uploaded."""
    sums = dict(answer.gathered.sums)
    for name, rows in answer.gathered.each.items():
        if rows.ndim == 1 and name in sizes.up and name != GROUP:
            weights = 1 if name in sizes.plain else answer.weights
            sums[name] = tree_sum(answer.ids, rows * weights)
    return sums


def _groups(answer: TaskAnswer, sizes: MeanInputs) -> Groups:
    """Return the means of the vectors, group by group; late replies have none."""
    own = answer.gathered.each.get(GROUP, answer.labels)
    labels, place = np.unique(np.asarray(own), return_inverse=True)
    counts, sums = np.bincount(place), answer.gathered.sums
    weights = np.bincount(place, answer.weights).astype(np.float64)
    mean = {
        name: np.stack(
            [
                _divided(sums[group_name(name, label)], count if name in sizes.plain else weight)
                for label, count, weight in zip(
                    labels.tolist(), counts.tolist(), weights.tolist(), strict=True
                )
            ]
        )
        for name in sizes.up
        if name in sums
    }
    return Groups(labels, counts, weights, mean)


def _divided(rows: Array, by: float) -> Array:
    """Divide by a number of clients or by their weights, which entered in the vectors' type.

    No one else holds the sums: they are divided in place, unless they lie in Ray's object store.
    """
    own = rows.ndim and rows.flags.writeable and rows.dtype.kind == "f"
    divided: Array = np.divide(rows, rows.dtype.type(by), out=rows if own else None)
    return divided
