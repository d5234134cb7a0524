"""Sums over bands of clients and steps of a clock, of a size that does not grow with the run."""

from __future__ import annotations

import numpy as np

from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.summary.bands import BANDS

STATUS = ("used", "late", "dropped", "unfinished")
"""What became of a work: its reply was used, it came after the server had stopped waiting, the
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
        """Add to each cell what intervals (n,) take of it."""
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
