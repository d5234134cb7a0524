"""Seconds for which clients could not be reached."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rayfed.core.arrays import Array, Bools, Floats, Ints

AWAY_CLIENTS = 1000
"""Most clients of which a run records the intervals away: those with the lowest ids."""


class Absence:
    """Intervals in which clients could not be reached.

    Parameters
    ----------
    away : mapping of str to (n,) array, optional
        ``client``, ``start_s`` and ``end_s``; None if it is not recorded.
    """

    def __init__(self, away: Mapping[str, Array] | None) -> None:
        self.recorded = away is not None
        self.empty = away is None or not len(away["client"])
        if away is None or self.empty:
            return
        order = np.lexsort((away["start_s"], away["client"]))
        client, self.begins, self.ends = (
            np.asarray(away[name])[order] for name in ("client", "start_s", "end_s")
        )
        self.known, self.owner = np.unique(client, return_inverse=True)
        before = np.concatenate([[0.0], np.cumsum(self.ends - self.begins)[:-1]])
        first = np.searchsorted(self.owner, np.arange(len(self.known)))
        self.before = before - before[first][self.owner]  # of the same client

    def covers(self, clients: Ints) -> Bools:
        """Return a mask of clients (K,) with recorded absences."""
        if not self.recorded:
            return np.zeros(len(clients), dtype=bool)
        if self.empty or len(clients) <= AWAY_CLIENTS:
            return np.ones(len(clients), dtype=bool)
        return np.asarray(clients <= self.known[-1])

    def seconds(self, clients: Ints, start: Floats, end: Floats) -> Floats:
        """Return the seconds (n,) for which clients (n,) were away between two times (n,)."""
        if self.empty:
            return np.zeros(len(clients))
        return self._until(clients, end) - self._until(clients, start)

    def _until(self, clients: Ints, times: Floats) -> Floats:
        """Return the seconds of absence of clients (n,) up to `times` (n,)."""
        # The last interval that had begun. Clients are set apart by more than any time; what this
        # rounds off does not matter: seconds away grow from 0 at the beginning of an interval.
        apart = 2.0 * max(float(self.ends.max()), float(times.max(initial=0.0)), 1.0)
        place = np.minimum(np.searchsorted(self.known, clients), len(self.known) - 1)
        last = np.searchsorted(self.owner * apart + self.begins, place * apart + times, "right") - 1
        last = np.maximum(last, 0)
        owned = (self.known[place] == clients) & (self.owner[last] == place)
        inside = np.maximum(np.minimum(times, self.ends[last]) - self.begins[last], 0.0)
        return np.where(owned, self.before[last] + inside, 0.0)
