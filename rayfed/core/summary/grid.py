"""Bands of clients of equal speed rank, and sums over bands and steps of a clock."""

from __future__ import annotations

import numpy as np

from rayfed.core.arrays import Array, Bools, Floats, Ints

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
    """Bands by the rank of a client within a sample.

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
        """Return the bands (K,) of other clients by the same property."""
        known = len(self.ids)
        among = np.repeat([0, 1], [len(ids), known])  # who is among them stands before itself
        both = ((slow, self.slow), (speed_s, self.speed_s), (ids, self.ids))
        first, second, third = (np.concatenate(pair) for pair in both)
        order = np.lexsort((among, third, second, first))
        before = np.empty(len(order), dtype=np.int64)
        before[order] = np.cumsum(among[order])
        rank = np.minimum(before[: len(ids)], known - 1)
        return np.asarray(rank * min(BANDS, known) // known)


STATUS = ("used", "late", "dropped", "unfinished")
"""What became of a task: its reply was used, it came after the server had stopped waiting, the
client went away before, or the run ended before the reply entered an update."""
STEPS = 160
"""Most steps of a clock; where it goes beyond them each step becomes twice as long."""


class Grid:
    """Cells of a band of clients and a step of a clock, with a sum for each of `STATUS`.

    Parameters
    ----------
    origin : float
        Where the clock begins.
    least : float, optional
        Length of the shortest steps. If None: the longest power of two that makes use of most
        steps.
    """

    def __init__(self, origin: float, least: float | None = None) -> None:
        self.origin, self.width = origin, least or 0.0
        self.cells = np.zeros((BANDS, STEPS, len(STATUS)))

    def reach(self, end: float) -> None:
        """Let the steps reach so far."""
        needed = (end - self.origin) / STEPS
        if needed > 0 and not self.width:
            part, exponent = np.frexp(needed)
            self.width = float(np.ldexp(1.0, exponent - (part == 0.5)))
        while self.width < needed:
            pairs = self.cells.reshape(BANDS, STEPS // 2, 2, len(STATUS)).sum(axis=2)
            self.cells = np.concatenate([pairs, np.zeros_like(pairs)], axis=1)
            self.width *= 2

    def count(self, band: Ints, at: Array, status: Ints) -> None:
        """Add one to the cell of each (n,)."""
        self.cells += self._summed(band, self._step(at), status, np.ones(len(band)))

    def spread(self, band: Ints, start: Floats, end: Floats, status: Ints) -> None:
        """Add to each cell its share of intervals (n,)."""
        if not self.width:
            return
        begin, stop = ((part - self.origin) / self.width for part in (start, end))
        first, last = self._step(start), self._step(end)
        inside = first == last
        parts = self._summed(band, first, status, np.where(inside, stop - begin, first + 1 - begin))
        parts += self._summed(band, last, status, np.where(inside, 0.0, stop - last))
        across = [part[~inside] for part in (band, first, last, status)]
        ones = np.ones(len(across[0]))
        # One more from the step after the first, one less from the last: whole steps in between.
        later = self._summed(across[0], across[1] + 1, across[3], ones)
        later -= self._summed(across[0], across[2], across[3], ones)
        self.cells += self.width * (parts + np.cumsum(later, axis=1))

    def filled(self) -> dict[str, Array]:
        """Return the cells in which anything is: ``band``, ``start``, ``width``, each status."""
        band, step = np.nonzero(self.cells.any(axis=2))
        sums = dict(zip(STATUS, self.cells[band, step].T, strict=True))
        width = np.full(len(band), self.width)
        return {"band": band, "start": self.origin + step * self.width, "width": width} | sums

    def _step(self, at: Array) -> Ints:
        steps = np.floor((np.asarray(at) - self.origin) / self.width).astype(np.int64)
        return np.clip(steps, 0, STEPS - 1)

    def _summed(self, band: Ints, step: Ints, status: Ints, values: Floats) -> Floats:
        place = (band * STEPS + step) * len(STATUS) + status
        sums = np.bincount(place, values, minlength=self.cells.size)
        return np.asarray(sums.reshape(self.cells.shape))
