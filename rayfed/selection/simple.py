"""Selections that poll no clients: everyone, draws with a fixed number of clients, and coins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rayfed.core.arrays import Floats, Ints
from rayfed.core.rng import Key
from rayfed.messages import State
from rayfed.selection.base import Choice, Selection, SelectionView
from rayfed.selection.draws import chunks, listed, repeated

_CHUNK = 64  # ids of the first question of a walk; each later one asks twice as many
_HEAD = 8  # ids of it where one client is wanted
_ROUNDS = 64  # whose heads are computed at once, at most
_AT_ONCE = 2**13  # ids of such heads, at most


@dataclass(frozen=True, kw_only=True)
class All(Selection):
    """Every available client takes part."""

    name: ClassVar[str] = "all"

    def select(self, view: SelectionView, state: State) -> Choice:
        """Return every available id."""
        yield from ()
        return listed(view), state

    def expected_shares(
        self, view: SelectionView, state: State, losses: Floats, draws: int
    ) -> Floats:
        """Return equal shares (N,) of all available clients."""
        return equal_shares(view)


@dataclass(frozen=True, kw_only=True)
class UniformSelection(Selection):
    """Each set of available clients is equally likely; without replacement."""

    name: ClassVar[str] = "uniform"

    def select(self, view: SelectionView, state: State) -> Choice:
        """Return the first available ids of a keyed permutation, redrawn every round.

        The cost grows with the ids passed over, not with the population: about
        ``wanted`` over the share that is available. Fewer are returned where fewer are available.
        """
        yield from ()
        if view.wanted >= view.most:  # no walk is needed to take all
            return listed(view), state
        chosen: list[Ints] = []
        missing = view.wanted
        for ids in _walk(view):
            chosen.append(ids[view.available(ids)][:missing])
            missing -= len(chosen[-1])
            if missing <= 0:
                break
        return np.sort(chosen[0] if len(chosen) == 1 else np.concatenate(chosen)), state

    def expected_shares(
        self, view: SelectionView, state: State, losses: Floats, draws: int
    ) -> Floats:
        """Return equal shares (N,) of all available clients, exactly."""
        return equal_shares(view)


@dataclass(frozen=True, kw_only=True)
class Weighted(Selection):
    """Available clients drawn in proportion to their rows n_i; with replacement.

    Ids may repeat, and a client drawn twice counts twice in the mean. As many are drawn as are
    wanted while any client is available. (Where the data sets the weights of its clients, they are
    drawn in proportion to these.)
    """

    name: ClassVar[str] = "weighted"
    size_weighted: ClassVar[bool] = True
    repeats: ClassVar[bool] = True

    def select(self, view: SelectionView, state: State) -> Choice:
        """Return ids drawn from all clients, rejecting those that are away."""
        yield from ()
        return np.sort(repeated(view)), state

    def expected_shares(
        self, view: SelectionView, state: State, losses: Floats, draws: int
    ) -> Floats:
        """Return shares (N,) in proportion to the rows of all available clients, exactly."""
        shares = np.zeros(view.count)
        ids = listed(view)
        shares[ids] = view.mass(ids)
        return np.asarray(shares / shares.sum())


@dataclass(frozen=True, kw_only=True)
class Poisson(Selection):
    """Each available client takes part with probability q = ``cohort`` / N.

    ``participation.cohort`` is the expected number if all are available. An empty cohort is a
    round, as accountants of privacy count rounds. The server waits where no client is available.
    """

    name: ClassVar[str] = "poisson"
    may_be_empty: ClassVar[bool] = True

    def select(self, view: SelectionView, state: State) -> Choice:
        """Return the available clients of a keyed draw.

        A binomial number of clients without replacement is the same as a coin for each client, and
        costs as much as the cohort.
        """
        yield from ()
        key, count = Key(view.seed, "poisson"), view.count
        number = int(key.generator(view.round).binomial(count, view.wanted / count))
        drawn = np.sort(key.permutation(count, round=view.round)(np.arange(number)))
        return drawn[view.available(drawn)] if number else drawn, state

    def expected_shares(
        self, view: SelectionView, state: State, losses: Floats, draws: int
    ) -> Floats:
        """Return equal shares (N,) of all available clients, exactly."""
        return equal_shares(view)


def _walk(view: SelectionView) -> Iterator[Ints]:
    """Yield the ids of all clients in the order of a keyed permutation, some at a time.

    The heads of the walks of many rounds are computed at once, unless cohorts are large.
    """
    key, chunk = Key(view.seed, "cohort"), max(_CHUNK, view.wanted)
    head = _head(view, key, min(_HEAD if view.wanted == 1 else chunk, view.count))
    if head is not None:
        yield head
    walk = key.permutation(view.count, round=view.round)
    for positions in chunks(view.count, chunk, 0 if head is None else len(head)):
        yield walk(positions)


def _head(view: SelectionView, key: Key, length: int) -> Ints | None:
    """Return so many ids of the walk of a round, or None where it is not worth it to look ahead.

    It is where rounds follow one another, and where a single client is wanted; in asynchronous runs
    the round is the number of a dispatch, and several clients take as many numbers.
    """
    last, view.cache["walked"] = view.cache.get("walked"), view.round
    first, heads = view.cache.get("heads", (0, np.empty((0, 0))))
    if not (first <= view.round < first + len(heads) and heads.shape[1] >= length):
        rounds = min(_ROUNDS, _AT_ONCE // length)
        if rounds < 2 or not (view.wanted == 1 or last == view.round - 1):
            return None
        heads = key.heads(view.count, length, round=view.round, rounds=rounds)
        first, _ = view.cache["heads"] = view.round, heads
    head: Ints = heads[view.round - first]
    return head


def equal_shares(view: SelectionView) -> Floats:
    """Return equal shares (N,) of all available clients; they add up to 1."""
    shares = np.zeros(view.count)
    shares[listed(view)] = 1.0
    return np.asarray(shares / shares.sum())
