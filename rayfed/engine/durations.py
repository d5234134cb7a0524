"""Durations of the next pieces of work, drawn some of a client at a time.

Keyed draws for one client cost as much as for a hundred. What work takes depends on the client and
on the number of its work alone, so it can be known before the client is dispatched.
"""

from __future__ import annotations

import numpy as np

from rayfed.core.arrays import Array, Floats, Ints
from rayfed.engine.clock import Duration, Traffic
from rayfed.engine.exchange import Exchange
from rayfed.messages import Ask

_LEAST, _MOST = 16, 64  # pieces of work of a client that are looked at together
_KEPT = 2**14  # clients
_BLOCK = 64  # clients with neighbouring ids that are looked at together, if all can be kept


class Durations:
    """Says how long pieces of work of one run take.

    Parameters
    ----------
    exchange : Exchange
    ask : Ask
        What clients are asked; its model does not matter here.
    """

    def __init__(self, exchange: Exchange, ask: Ask) -> None:
        self.exchange, self.ask = exchange, ask
        self.step_state = exchange.counter.init()
        self.known: dict[int, tuple[int, Array]] = {}
        population = exchange.clock.population
        self.may_break = population.lossy or population.crashing

    def of(self, ids: Ints, numbers: Ints, traffic: Traffic) -> tuple[Duration, Floats | None]:
        """Return how long work takes, and after which share of it is lost, if any ever is.

        Parameters
        ----------
        ids : (K,) array of int
            Distinct clients, ascending.
        numbers : (K,) array of int
            How often each has been dispatched, this time included.
        traffic : Traffic
            What each downloads and uploads; where that is the same for all it never changes.
        """
        steps, down_s, compute_s, up_s, lost = np.array(self.rows(ids, numbers, traffic)).T
        broken = lost if self.may_break else None
        return Duration(steps.astype(np.int64), down_s, compute_s, up_s), broken

    def rows(self, ids: Ints, numbers: Ints, traffic: Traffic) -> list[Array]:
        """Return what work takes each client: steps, seconds down, computing and up, the share.

        Parameters are those of `of`.
        """
        if not isinstance(traffic.down, int) or not isinstance(traffic.up, int):
            return list(self._table(ids, numbers, traffic))
        pairs = list(zip(ids.tolist(), numbers.tolist(), strict=True))
        unknown = [k for k, pair in enumerate(pairs) if not self._knows(*pair)]
        if len(self.known) + len(unknown) > _KEPT:
            self.known.clear()
            unknown = list(range(len(ids)))
        if unknown:
            self._look_ahead(ids[unknown], numbers[unknown], traffic)
        rows = []
        for client, number in pairs:
            first, table = self.known[client]
            rows.append(table[number - first])
        return rows

    def _knows(self, client: int, number: int) -> bool:
        first, table = self.known.get(client, (0, ()))
        return first <= number < first + len(table)

    def _look_ahead(self, ids: Ints, numbers: Ints, traffic: Traffic) -> None:
        """Draw the next pieces of work of clients (K,): the more, the more often they come."""
        ids, numbers = self._with_neighbours(ids, numbers)
        counts = np.clip(4 * numbers, _LEAST, _MOST)
        starts = np.concatenate([[0], np.cumsum(counts)])
        who = ids.repeat(counts)
        which = np.arange(len(who)) - (starts[:-1] - numbers).repeat(counts)
        table = self._table(who, which, traffic)
        for k, (client, number) in enumerate(zip(ids.tolist(), numbers.tolist(), strict=True)):
            self.known[client] = number, table[starts[k] : starts[k + 1]]

    def _with_neighbours(self, ids: Ints, numbers: Ints) -> tuple[Ints, Ints]:
        """Add the first pieces of work of clients near others (K,), if nothing is known of them."""
        count = self.exchange.clock.population.count
        if count > _KEPT:
            return ids, numbers
        near = (np.unique(ids // _BLOCK)[:, None] * _BLOCK + np.arange(_BLOCK)).ravel()
        others = np.setdiff1d(near[near < count], ids, assume_unique=True)
        others = np.array([i for i in others.tolist() if i not in self.known], dtype=np.int64)
        return np.concatenate([ids, others]), np.concatenate([numbers, np.ones_like(others)])

    def _table(self, ids: Ints, numbers: Ints, traffic: Traffic) -> Array:
        """Return the columns (K, 5) of pieces of work."""
        clock, counter = self.exchange.clock, self.exchange.counter
        pace = clock.pace(ids, numbers)
        steps = np.zeros(len(ids), dtype=np.int64)
        if self.ask.local:
            steps = counter.steps(ids, pace, numbers, self.step_state)
        duration = clock.duration(self.ask, traffic, ids, pace, steps)
        duration, lost = clock.mishaps(ids, duration, numbers)
        broken = np.full(len(ids), np.inf) if lost is None else lost
        return np.stack([steps, duration.down_s, duration.compute_s, duration.up_s, broken], axis=1)
