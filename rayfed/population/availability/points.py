"""Keyed random points on the virtual clock, from which clients that come and go are made."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rayfed.core.arrays import Bools, Floats, Ints
from rayfed.core.rng import Key
from rayfed.population.availability.base import Times

_CELL = 4.0  # mean number of points in a cell
_GAPS = 12  # drawn together; more than a cell needs, but for one of a thousand
_BATCHES = 16  # of a cell, more than it ever needs where the clock resolves its points
_SEARCH = 16  # cells that a search goes through; all of them are empty with probability exp(-64)
_TOGETHER = 2**16  # ids that are asked about together, which bounds the memory
_WORD = 1 << 32


@dataclass(frozen=True)
class Points:
    """The points of a Poisson process on the whole line, one process for each id.

    The line is cut into cells. Parts of a Poisson process are independent, so each cell is made
    alone, by exponential gaps from its start: any time can be asked about without those before it.

    Parameters
    ----------
    key : Key
    mean_s : float
        Mean seconds between points.
    """

    key: Key
    mean_s: float

    def last(self, ids: Ints, t: Times) -> Floats:
        """Return the last point (K,) at or before t."""
        return self._search(ids, t, -1)

    def first(self, ids: Ints, t: Times) -> Floats:
        """Return the first point (K,) after t; the next number where the clock resolves none."""
        later = np.maximum(self._search(ids, t, 1), np.nextafter(t, np.inf))
        return np.asarray(later, dtype=np.float64)

    def _search(self, ids: Ints, t: Times, way: int) -> Floats:
        times = np.broadcast_to(np.asarray(t, dtype=np.float64), np.shape(ids))
        starts = range(0, max(1, len(ids)), _TOGETHER)
        parts = [slice(start, start + _TOGETHER) for start in starts]
        return np.concatenate([self._nearest(ids[part], times[part], way) for part in parts])

    def _nearest(self, ids: Ints, t: Floats, way: int) -> Floats:
        now = self._cell_of(t)
        found = np.asarray((now + way * _SEARCH) * self._length_s, dtype=np.float64)
        pending = np.arange(len(ids))
        for step in range(0, way * _SEARCH, way):
            if not len(pending):
                break
            points, until = self._cell(ids[pending], now[pending] + step), t[pending, None]
            if way > 0:
                nearest = np.where(points > until, points, np.inf).min(axis=1)
            else:
                nearest = np.where(points <= until, points, -np.inf).max(axis=1)
            reached = np.isfinite(nearest)
            found[pending[reached]] = nearest[reached]
            pending = pending[~reached]
        return np.asarray(found)

    def _cell_of(self, t: Floats) -> Ints:
        """Return the cells (K,) that hold times, exactly in floating point."""
        cell = np.floor(t / self._length_s)
        cell += (cell + 1.0) * self._length_s <= t
        cell -= cell * self._length_s > t
        return cell.astype(np.int64)

    def _cell(self, ids: Ints, cell: Ints) -> Floats:
        """Return the points (K, n) of cells (K,), ascending; infinity fills up the rows."""
        batches = [np.empty((len(ids), 0))]
        reached, pending = cell * self._length_s, np.arange(len(ids))
        end = ((cell + 1) * self._length_s)[:, None]
        high, low = np.divmod(cell + _SEARCH, _WORD)  # the line begins at 0, and is searched back
        for batch in range(_BATCHES):
            key, some = self.key.sub(str(batch)), pending
            u = key.uniforms(ids[some], _GAPS, round=low[some], ask=high[some])
            points = reached[some, None] + np.cumsum(-self.mean_s * np.log1p(-u), axis=1)
            inside = points < end[some]
            filled = np.full((len(ids), _GAPS), np.inf)
            filled[some] = np.where(inside, points, np.inf)
            batches.append(filled)
            reached[some] = points[:, -1]
            pending = some[inside[:, -1]]
            if not len(pending):
                break
        return np.concatenate(batches, axis=1)

    @property
    def _length_s(self) -> float:
        return _CELL * self.mean_s


@dataclass(frozen=True)
class OnOff:
    """Two-state Markov chains in continuous time, one for each id, stationary from the start.

    Two independent Poisson processes switch a chain on and off; a switch that changes nothing is
    no change. By the memorylessness of both, the stays are exponential with the given means.

    Parameters
    ----------
    key : Key
    mean_on_s, mean_off_s : float
        Mean seconds of a stay.
    """

    key: Key
    mean_on_s: float
    mean_off_s: float

    def on(self, ids: Ints, t: Times) -> Bools:
        """Return a mask (K,) of chains with a last switch to on."""
        return np.asarray(self._ons.last(ids, t) > self._offs.last(ids, t))

    def next_change(self, ids: Ints, t: Times) -> Floats:
        """Return the first second (K,) after t at which each chain changes."""
        times = np.broadcast_to(np.asarray(t, dtype=np.float64), np.shape(ids))
        on = self.on(ids, times)
        change = np.empty(len(ids))
        change[on] = self._offs.first(ids[on], times[on])
        change[~on] = self._ons.first(ids[~on], times[~on])
        return change

    @property
    def _ons(self) -> Points:
        return Points(self.key.sub("on"), self.mean_off_s)

    @property
    def _offs(self) -> Points:
        return Points(self.key.sub("off"), self.mean_on_s)
