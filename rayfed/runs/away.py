"""When clients could not be reached: what ``away.parquet`` of a run holds."""

from __future__ import annotations

import numpy as np

from rayfed.core.arrays import Array, Floats, Ints
from rayfed.population import Population

AWAY_CLIENTS = 1000
"""At most so many clients are recorded: a figure of more bars cannot be read."""
_MOST_CHANGES = 20_000  # of anybody's availability; a run with more is recorded up to there


def away(population: Population, ids: Ints, times: Floats) -> dict[str, Array]:
    """Return the intervals in which clients could not be reached.

    Parameters
    ----------
    population : Population
        Its availability is a pure function of time and round.
    ids : (K,) array of int
        The clients.
    times : (R + 1,) array of float
        The clock at the end of each round, from round 0.

    Returns
    -------
    dict of str to (n,) array
        ``client``, ``start_s`` and ``end_s``; adjacent intervals are one.
    """
    since = np.full(len(ids), np.nan)
    intervals: list[tuple[int, float, float]] = []
    for time_s, round_number in _changes(population, ids, times):
        available = population.available(ids, time_s, round_number)
        back = available & ~np.isnan(since)
        intervals += [(int(ids[k]), float(since[k]), time_s) for k in np.flatnonzero(back)]
        since[available] = np.nan
        since[~available & np.isnan(since)] = time_s
    end = float(times[-1])
    intervals += [(int(ids[k]), float(since[k]), end) for k in np.flatnonzero(since < end)]
    client, start_s, end_s = list(zip(*sorted(intervals), strict=True)) or [(), (), ()]
    return {
        "client": np.array(client, dtype=np.int64),
        "start_s": np.array(start_s, dtype=np.float64),
        "end_s": np.array(end_s, dtype=np.float64),
    }


def _changes(population: Population, ids: Ints, times: Floats) -> list[tuple[float, int]]:
    """Return the times at which availability may change, each with its round."""
    changes: list[tuple[float, int]] = []
    for round_number in range(1, len(times)):
        time_s, end = float(times[round_number - 1]), float(times[round_number])
        while time_s < end and len(changes) < _MOST_CHANGES and len(ids):
            changes.append((time_s, round_number))
            time_s = float(population.next_change(ids, time_s).min())
    return changes
