"""Rounds of algorithms and selections without an engine: a test answers their Asks."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from rayfed.algorithms.base import Algorithm
from rayfed.core.arrays import Ints
from rayfed.messages import Ask, Diagnostics, Groups, Reply, State, Wait
from rayfed.selection.base import Selection, SelectionView

Replies: TypeAlias = Reply | Sequence[Reply] | Callable[[Ask], Reply]
"""What answers the Asks of a round: one Reply, one for each Ask, or a function of the Ask."""

Returned = TypeVar("Returned")


class Answered(NamedTuple):
    """Result of a round of an algorithm, and its Asks."""

    state: State
    diagnostics: Diagnostics
    asks: list[Ask]


class Chosen(NamedTuple):
    """Selected clients, the new state, and earlier yields of a selection."""

    ids: Ints
    state: State
    yielded: list[Ask | Wait]


def reply(
    mean: Mapping[str, ArrayLike] | None = None,
    *,
    ids: Sequence[int] | Ints | None = None,
    weights: Sequence[float] | None = None,
    each: Mapping[str, ArrayLike] | None = None,
    steps: Sequence[int] | None = None,
    population: int = 0,
    groups: Groups | None = None,
    round: int = 1,
    staleness: Sequence[int] | None = None,
    seconds: Sequence[float] = (),
    sent: State | None = None,
    mean_weight: float = 1.0,
) -> Reply:
    """Return a Reply with the parts that a test does not care about filled in.

    Parameters
    ----------
    mean, each, population, groups, round, mean_weight
        As in `Reply`; numbers are turned into arrays of float64.
    ids : sequence of int, optional
        The clients that answered (K,), ascending; 0 to K - 1 if None, where K is the length of
        `weights` and 2 if there are none.
    weights : sequence of float, optional
        Raw weights (K,); 1 each if None.
    steps : sequence of int, optional
        Local steps (K,); 1 each if None.
    staleness : sequence of int, optional
        For asynchronous algorithms (K,); 0 each if None.
    seconds : sequence of float
        For selections that learn the durations of tasks (K,).
    sent : mapping of str to array, optional
        What all downloaded, for asynchronous algorithms.

    Examples
    --------
    >>> reply({"delta": [2.0]}, population=10).ids.tolist()
    [0, 1]
    """
    count = len(ids) if ids is not None else 2 if weights is None else len(weights)
    return Reply(
        ids=np.arange(count) if ids is None else np.asarray(ids, dtype=np.int64),
        weights=np.ones(count) if weights is None else np.asarray(weights, dtype=np.float64),
        mean={name: np.asarray(value, dtype=np.float64) for name, value in (mean or {}).items()},
        each={name: np.asarray(value) for name, value in (each or {}).items()},
        steps=np.ones(count, dtype=np.int64) if steps is None else np.asarray(steps),
        population=population,
        groups=Groups.empty() if groups is None else groups,
        round=round,
        staleness=np.zeros(count, dtype=np.int64) if staleness is None else np.asarray(staleness),
        seconds=np.asarray(seconds, dtype=np.float64),
        sent=sent or {},
        mean_weight=mean_weight,
    )


def answer(algorithm: Algorithm, state: State, replies: Replies = ()) -> Answered:
    """Run the server function of one round and answer its Asks.

    Parameters
    ----------
    algorithm : Algorithm
        Its `round` is run.
    state : mapping of str to array
        The server's state before the round.
    replies : Reply, sequence of Reply, or callable
        The answers: one for the only Ask, one for each Ask, or a function of the Ask.

    Returns
    -------
    Answered
        The new state, the diagnostics, and the Asks in the order in which they were made.

    Raises
    ------
    AssertionError
        If the round makes more or fewer Asks than replies are listed.

    Examples
    --------
    >>> from rayfed.algorithms.fedavg import FedAvg
    >>> state, diagnostics, (ask,) = answer(
    ...     FedAvg(), {"x": np.array([4.0])}, reply({"delta": [3.0]})
    ... )
    >>> state["x"].tolist(), ask.function
    ([1.0], 'train')
    """
    (after, diagnostics), asks = _converse(algorithm.round(state), replies)
    return Answered(after, diagnostics, asks)


def choose(
    selection: Selection, view: SelectionView, state: State | None = None, replies: Replies = ()
) -> Chosen:
    """Run a selection for one round and answer its Asks.

    Parameters
    ----------
    selection : Selection
        Its `select` is run.
    view : SelectionView
        What it sees of the round.
    state : mapping of str to array, optional
        Its state before the round; the first one if None.
    replies : Reply, sequence of Reply, or callable
        The answers; a selection that yields a `Wait` gets none for it.

    Raises
    ------
    AssertionError
        If it makes more or fewer Asks than replies are listed.

    Examples
    --------
    >>> from rayfed.selection import All
    >>> everybody = lambda ids: np.ones(len(ids), dtype=bool)
    >>> choose(All(), SelectionView(3, 1, 0.0, 3, 0, everybody, np.ones_like)).ids.tolist()
    [0, 1, 2]
    """
    before = selection.init(view.count) if state is None else state
    (ids, after), yielded = _converse(selection.select(view, before), replies)
    return Chosen(ids, after, yielded)


class _InOrder:
    """Gives replies one after the other."""

    def __init__(self, replies: Reply | Sequence[Reply]) -> None:
        self.left = [replies] if isinstance(replies, Reply) else list(replies)

    def __call__(self, ask: Ask) -> Reply:
        if not self.left:
            raise AssertionError(f"no reply was given for the Ask '{ask.function}'")
        return self.left.pop(0)


def _converse(
    generator: Generator[Any, Any, Returned], replies: Replies
) -> tuple[Returned, list[Any]]:
    """Answer all yields of a generator; return its result and its yields."""
    answer_to = replies if callable(replies) else _InOrder(replies)
    yielded: list[Any] = []
    response: Reply | None = None
    while True:
        try:
            request = next(generator) if response is None else generator.send(response)
        except StopIteration as end:
            if isinstance(answer_to, _InOrder) and answer_to.left:
                raise AssertionError(f"{len(answer_to.left)} replies were not asked for") from None
            returned: Returned = end.value
            return returned, yielded
        yielded.append(request)
        response = None if isinstance(request, Wait) else answer_to(request)
