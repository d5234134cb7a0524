"""Draws of available clients, keyed by the seed and the round alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rayfed.core.arrays import Floats, Ints
from rayfed.core.rng import Key
from rayfed.selection.base import SelectionView

_PIECE = 2**16
_TRIES = 8  # chunks of draws by mass before the available clients are listed


def listed(view: SelectionView) -> Ints:
    """Return every available id, ascending."""
    everyone = np.arange(view.count) if view.idle is None else view.idle
    return everyone[view.available(everyone)]


def chunks(count: int, first: int, start: int = 0) -> Iterator[Ints]:
    """Yield ``range(start, count)`` in pieces, each twice as long as the one before."""
    length = first
    while start < count:
        yield np.arange(start, min(start + length, count))
        start, length = start + length, 2 * length


def repeated(view: SelectionView) -> Ints:
    """Draw ``wanted`` available ids by mass, with replacement; in the order of the draws.

    Draws of clients that are away are rejected. Where `_TRIES` chunks of ``wanted`` draws do not
    suffice (few are available), the rest is drawn from the list of the available, at a cost that
    grows with the population. Both draw from the same distribution.
    """
    key = Key(view.seed, "cohort/weighted")
    chosen = np.empty(0, dtype=np.int64)
    for chunk in range(_TRIES):
        ids = _by_mass(view, key, cumulative(view), chunk, view.wanted)
        chosen = np.concatenate([chosen, ids[view.available(ids)]])
        if len(chosen) >= view.wanted:
            return chosen[: view.wanted]
    ids = listed(view)
    mass = np.cumsum(view.mass(ids))
    if len(ids) and mass[-1]:
        rest = ids[_by_mass(view, key, mass, _TRIES, view.wanted)]
        chosen = np.concatenate([chosen, rest])
    return chosen[: view.wanted]


def distinct(view: SelectionView, count: int) -> Ints:
    """Draw so many available ids by mass, one after another, without replacement.

    Each draw is in proportion to the masses of those that are left, so repeats are rejected. Where
    `_TRIES` chunks of draws do not suffice, or most clients are wanted, the rest comes from a
    race: exponential waiting times with rates in proportion to the masses, the shortest first,
    which is the same distribution at a cost that grows with the population.

    Returns
    -------
    (K,) array of int
        In the order of the draws; fewer where fewer are available.
    """
    key = Key(view.seed, "candidates")
    chosen = np.empty(0, dtype=np.int64)
    if 2 * count < view.count:
        for chunk in range(_TRIES):
            ids = _by_mass(view, key, cumulative(view), chunk, count)
            chosen = _without_repeats(np.concatenate([chosen, ids[view.available(ids)]]))
            if len(chosen) >= count:
                return chosen[:count]
    rest = np.setdiff1d(listed(view), chosen)
    mass = view.mass(rest)
    rest, mass = rest[mass > 0], mass[mass > 0]
    waits = -np.log(Key(view.seed, "candidates/race").uniforms(rest, round=view.round)) / mass
    first = rest[np.argsort(waits, kind="stable")]
    return np.concatenate([chosen, first])[:count]


def redrawn(view: SelectionView, count: int, draws: int) -> Ints:
    """Draw many sets of candidates, as `distinct` does, with random numbers of their own.

    Returns
    -------
    (draws, K) array of int
        In the order of the draws; K is `count`, or less where fewer are available.
    """
    ids = listed(view)
    mass = view.mass(ids)
    ids, mass = ids[mass > 0], mass[mass > 0]
    u = Key(view.seed, "candidates/anew").uniforms(np.arange(draws), len(ids), round=view.round)
    return np.asarray(ids[np.argsort(-np.log(u) / mass, axis=1, kind="stable")[:, :count]])


def cumulative(view: SelectionView) -> Floats:
    """Return the cumulative masses of all clients (N,), made once a run."""
    if "cumulative" not in view.cache:
        sums = np.empty(view.count)
        for first in range(0, view.count, _PIECE):  # no more than the sums is held for all
            ids = np.arange(first, min(first + _PIECE, view.count))
            sums[ids] = view.mass(ids)
        view.cache["cumulative"] = np.cumsum(sums, out=sums)
    held: Floats = view.cache["cumulative"]
    return held


def _by_mass(view: SelectionView, key: Key, sums: Floats, chunk: int, count: int) -> Ints:
    """Draw indices i with probability proportional to the steps of a cumulative sum."""
    u = key.uniforms([chunk], count, round=view.round)[0]
    at = np.minimum(u * sums[-1], np.nextafter(sums[-1], 0))
    return np.asarray(np.searchsorted(sums, at, side="right"))


def _without_repeats(ids: Ints) -> Ints:
    """Return the distinct ids in the order of their first appearance."""
    _, first = np.unique(ids, return_index=True)
    return ids[np.sort(first)]
