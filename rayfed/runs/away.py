"""When clients were away, for those who look at a run afterwards."""

from __future__ import annotations

import numpy as np

from rayfed.core.arrays import Array, Floats, Ints
from rayfed.population import Population

AWAY_CLIENTS = 1000
"""So many clients are recorded; nobody looks at more bars."""
_STEPS = 20_000  # changes of anybody's availability; a run with more is recorded up to there


def away(population: Population, ids: Ints, times: Floats) -> dict[str, Array]:
    """Return the intervals in which clients could not be reached.

    Parameters
    ----------
    population : Population
        Knows availability as a pure function of time and round.
    ids : (K,) array of int
        Whom to look at.
    times : (R + 1,) array of float
        The clock at the end of each round, from round 0.

    Returns
    -------
    dict of str to (n,) array
        ``client``, ``start_s`` and ``end_s``; adjacent intervals are one.
    """
    since = np.full(len(ids), np.nan)
    found: list[tuple[int, float, float]] = []
    for now, number in _moments(population, ids, times):
        there = population.available(ids, now, number)
        back = there & ~np.isnan(since)
        found += [(int(ids[k]), float(since[k]), now) for k in np.flatnonzero(back)]
        since[there] = np.nan
        since[~there & np.isnan(since)] = now
    end = float(times[-1])
    found += [(int(ids[k]), float(since[k]), end) for k in np.flatnonzero(since < end)]
    found.sort()
    columns = list(zip(*found, strict=True)) or [(), (), ()]
    kinds = (np.int64, np.float64, np.float64)
    names = ("client", "start_s", "end_s")
    return {n: np.array(c, dtype=k) for n, c, k in zip(names, columns, kinds, strict=True)}


def _moments(population: Population, ids: Ints, times: Floats) -> list[tuple[float, int]]:
    """Return the times at which availability may change, each with its round."""
    found: list[tuple[float, int]] = []
    for number in range(1, len(times)):
        now, end = float(times[number - 1]), float(times[number])
        while now < end and len(found) < _STEPS and len(ids):
            found.append((now, number))
            now = float(population.next_change(ids, now).min())
    return found
