"""``away.parquet``: when clients could not be reached."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rayfed.core.arrays import Array, Floats, Ints
from rayfed.population import Population

AWAY_CLIENTS = 1000
"""So many clients are recorded; nobody looks at more bars."""
MOST_STEPS = 20_000
"""Changes of availability, of a client that changes by the clock or of anybody; a run with more is
recorded up to there."""
MOST_INTERVALS = 100_000
"""Intervals of all clients; a run with more is recorded up to there."""


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
        ``client``, ``start_s`` and ``end_s``; adjacent intervals are one. They end where
        `MOST_STEPS` or `MOST_INTERVALS` are reached.
    """
    if population.own_times:
        return _by_client(population, ids, float(times[0]), float(times[-1]))
    return _by_step(population, ids, times)


def _by_client(population: Population, ids: Ints, start_s: float, end_s: float) -> dict[str, Array]:
    """Return the intervals where each client can go from change to change on its own."""
    away = np.flatnonzero(~population.available(ids, start_s, 1))
    now, going = np.full(len(ids), start_s), np.arange(len(ids))
    whose, when = [away], [now[away]]
    for _ in range(MOST_STEPS):
        if not len(going) or sum(map(len, whose)) > 2 * MOST_INTERVALS:
            break
        now[going] = population.next_change(ids[going], now[going])
        going = going[now[going] < end_s]
        whose.append(going)
        when.append(now[going])
    end_s = float(now[going].min(initial=end_s))  # all changes until then are known
    who, time_s = np.concatenate(whose), np.concatenate(when)
    who, time_s = who[time_s < end_s], time_s[time_s < end_s]
    still = np.flatnonzero(np.bincount(who, minlength=len(ids)) % 2)  # away at the end
    who, time_s = np.append(who, still), np.append(time_s, np.full(len(still), end_s))
    order = np.lexsort((time_s, ids[who]))
    time_s = time_s[order]
    return {"client": ids[who[order]][::2], "start_s": time_s[::2], "end_s": time_s[1::2]}


def _by_step(population: Population, ids: Ints, times: Floats) -> dict[str, Array]:
    """Return the intervals, asking all clients whenever one of them may change."""
    since = np.full(len(ids), np.nan)
    found: list[tuple[int, float, float]] = []
    end = float(times[-1])
    for step, (now, number) in enumerate(_moments(population, ids, times)):
        if step == MOST_STEPS or len(found) >= MOST_INTERVALS:
            end = now
            break
        there = population.available(ids, now, number)
        back = there & ~np.isnan(since)
        found += [(int(ids[k]), float(since[k]), now) for k in np.flatnonzero(back)]
        since[there] = np.nan
        since[~there & np.isnan(since)] = now
    found += [(int(ids[k]), float(since[k]), end) for k in np.flatnonzero(since < end)]
    found.sort()
    columns = list(zip(*found, strict=True)) or [(), (), ()]
    kinds = (np.int64, np.float64, np.float64)
    names = ("client", "start_s", "end_s")
    return {n: np.array(c, dtype=k) for n, c, k in zip(names, columns, kinds, strict=True)}


def _moments(population: Population, ids: Ints, times: Floats) -> Iterator[tuple[float, int]]:
    """Yield the times at which availability may change, each with its round."""
    for number in range(1, len(times)):
        now, end = float(times[number - 1]), float(times[number])
        while now < end and len(ids):
            yield now, number
            now = float(population.next_change(ids, now).min())
