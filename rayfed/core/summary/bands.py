"""Bands of clients of equal speed rank, the fastest first."""

from __future__ import annotations

import numpy as np

from rayfed.core.arrays import Bools, Floats, Ints

BANDS = 40


def ranked(slow: Bools, speed_s: Floats, seen_s: Floats, ids: Ints) -> Ints:
    """Return the places (K,) of clients in the order of their speed, the fastest first.

    Stragglers come after all others, then the order is that of the mean seconds of a step, of those
    that were seen, and of the ids; what is not known is last.
    """
    seen, speed = (np.where(np.isnan(part), np.inf, part) for part in (seen_s, speed_s))
    return np.lexsort((ids, seen, speed, slow))


def banded(order: Ints) -> Ints:
    """Return the band (K,) of each client, from the places of clients in their order."""
    bands = np.empty(len(order), dtype=np.int64)
    bands[order] = np.arange(len(order)) * min(BANDS, len(order)) // max(1, len(order))
    return bands


class Ranking:
    """Bands by the rank that a client has among some others, who are looked at once.

    Parameters
    ----------
    slow : (K,) array of bool
        Who is a straggler.
    speed_s : (K,) array of float
        Mean seconds of a step.
    ids : (K,) array of int
    """

    def __init__(self, slow: Bools, speed_s: Floats, ids: Ints) -> None:
        self.slow, self.speed_s, self.ids = slow, speed_s, ids

    def of(self, slow: Bools, speed_s: Floats, ids: Ints) -> Ints:
        """Return the band (K,) of other clients, of whom the same is known."""
        known = len(self.ids)
        among = np.repeat([0, 1], [len(ids), known])  # who is among them stands before itself
        both = ((slow, self.slow), (speed_s, self.speed_s), (ids, self.ids))
        first, second, third = (np.concatenate(pair) for pair in both)
        order = np.lexsort((among, third, second, first))
        before = np.empty(len(order), dtype=np.int64)
        before[order] = np.cumsum(among[order])
        rank = np.minimum(before[: len(ids)], known - 1)
        return np.asarray(rank * min(BANDS, known) // known)
