"""Selection: which of the available clients take part in a round.

A selection is a generator of the same kind as an algorithm's round: it may yield Asks (a poll for
losses) and is charged for them; it returns the ids and its new state. It is keyed by the run's
seed alone, so that all algorithms of a study see the same cohorts.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from rayfed.rng import Key

if TYPE_CHECKING:
    from rayfed.algorithms.base import Ask, Reply

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
State: TypeAlias = Mapping[str, npt.NDArray[Any]]

_CHUNK = 64  # ids of the first question of a walk; each later one asks twice as many
_TRIES = 8  # chunks of weighted draws before the available clients are listed


@dataclass(frozen=True)
class View:
    """What a selection sees of the round it selects for.

    Parameters
    ----------
    count : int
        Number N of clients.
    round : int
        Round number, from 1.
    time_s : float
        Virtual clock in seconds.
    wanted : int
        How many to draw: the cohort, over-selection included.
    seed : int
        Seed of the run.
    available : callable
        ``available(ids) -> (K,) bool``.
    sizes : callable
        ``sizes(ids) -> (K,) int``, the training rows n_i.
    cache : dict
        What a run needs to compute once; it lives as long as the run and is no state.
    """

    count: int
    round: int
    time_s: float
    wanted: int
    seed: int
    available: Callable[[Ints], Bools]
    sizes: Callable[[Ints], Ints]
    cache: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)


Choice: TypeAlias = "Generator[Ask, Reply, tuple[Ints, State]]"


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Base of all selections.

    Attributes
    ----------
    size_weighted : bool
        Large clients are drawn more often, so the mean over participants is uniform by default.
    """

    name: ClassVar[str]
    size_weighted: ClassVar[bool] = False

    def init(self, count: int) -> State:
        """Return the state before the first round of N = count clients."""
        return {}

    def select(self, view: View, state: State) -> Choice:
        """Yield Asks, if any, and return the ids (K,), ascending, and the new state."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class All(Selection):
    """Every available client takes part."""

    name: ClassVar[str] = "all"

    def select(self, view: View, state: State) -> Choice:
        """Return every available id."""
        yield from ()
        return _listed(view), state


@dataclass(frozen=True, kw_only=True)
class Uniform(Selection):
    """Each set of available clients is equally likely; without replacement."""

    name: ClassVar[str] = "uniform"

    def select(self, view: View, state: State) -> Choice:
        """Return the first available ids of a keyed permutation, redrawn every round.

        The cost grows with the ids passed over, not with the population: about
        ``wanted`` over the share that is available. Fewer are returned where fewer are available.
        """
        yield from ()
        if view.wanted == view.count:  # no walk is needed to take all
            return _listed(view), state
        walk = Key(view.seed, "cohort").permutation(view.count, round=view.round)
        chosen = [np.empty(0, dtype=np.int64)]
        missing = view.wanted
        for positions in _chunks(view.count, max(_CHUNK, view.wanted)):
            ids = walk(positions)
            chosen.append(ids[view.available(ids)][:missing])
            missing -= len(chosen[-1])
            if missing <= 0:
                break
        return np.sort(np.concatenate(chosen)), state


@dataclass(frozen=True, kw_only=True)
class Weighted(Selection):
    """Available clients drawn in proportion to their rows n_i; with replacement.

    Ids may repeat, and a client drawn twice counts twice in the mean. As many are drawn as are
    wanted while anybody is available.
    """

    name: ClassVar[str] = "weighted"
    size_weighted: ClassVar[bool] = True

    def select(self, view: View, state: State) -> Choice:
        """Return ids drawn from all clients, rejecting those that are away.

        Where `_TRIES` chunks of ``wanted`` draws do not suffice (few are available), the rest is
        drawn from the list of the available, at a cost that grows with the population. Both draw
        from the same distribution.
        """
        yield from ()
        if "cumulative" not in view.cache:
            everyone = np.arange(view.count)
            view.cache["cumulative"] = np.cumsum(view.sizes(everyone))
        chosen = np.empty(0, dtype=np.int64)
        for chunk in range(_TRIES):
            ids = _draw(view, view.cache["cumulative"], chunk)
            chosen = np.concatenate([chosen, ids[view.available(ids)]])
            if len(chosen) >= view.wanted:
                break
        else:
            chosen = np.concatenate([chosen, _draw_listed(view)])
        return np.sort(chosen[: view.wanted]), state


def _listed(view: View) -> Ints:
    """Return every available id, ascending."""
    everyone = np.arange(view.count)
    return everyone[view.available(everyone)]


def _chunks(count: int, first: int) -> Iterator[Ints]:
    """Yield ``range(count)`` in pieces, each twice as long as the one before."""
    start, length = 0, first
    while start < count:
        yield np.arange(start, min(start + length, count))
        start, length = start + length, 2 * length


def _draw(view: View, cumulative: Ints, chunk: int) -> Ints:
    """Draw ``wanted`` indices i with probability proportional to the steps of a cumulative sum."""
    u = Key(view.seed, "cohort/weighted").uniforms([chunk], view.wanted, round=view.round)[0]
    row = np.minimum((u * cumulative[-1]).astype(np.int64), cumulative[-1] - 1)
    return np.asarray(np.searchsorted(cumulative, row, side="right"))


def _draw_listed(view: View) -> Ints:
    """Draw ``wanted`` ids from the list of the available, in proportion to their rows."""
    ids = _listed(view)
    rows = np.cumsum(view.sizes(ids))
    return ids[_draw(view, rows, _TRIES)] if len(ids) and rows[-1] else ids[:0]
