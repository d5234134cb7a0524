"""A link of limited capacity, shared by the transfers that are under way at the same time."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, fields
from heapq import heapify, heappop, heappush

import numpy as np

from rayfed.core.arrays import Array


@dataclass(slots=True)
class Transfer:
    """A transfer under way.

    Parameters
    ----------
    key : int
        Its name on the link.
    cap : float
        The most that it can use, bytes/s; inf if it has no limit of its own.
    shares : bool
        Whether it shares what those leave that are limited by their caps.
    mark : float
        When it ends if it is limited by its cap, in seconds; otherwise the value of `Link.served`
        at which it ends, in bytes.
    left, since_s : float
        If it is limited by its cap: the bytes that it had left when this began, and when it did.
    """

    key: int
    cap: float
    shares: bool
    mark: float
    left: float
    since_s: float


class Link:
    """A shared link with max-min fair transfers (processor sharing).

    Each of m transfers has the rate ``min(cap, level)``, with the level at which the rates add up
    to the capacity (water filling). In the order of their caps the first transfers are limited by
    them, and the others share evenly what is left. All who share get the same number of bytes in
    any time, so the next of them to end is the one with the least mark: an event costs a few steps
    of heaps, and the few transfers that change sides. A transfer that is limited by its cap all
    the time ends exactly at ``start + size / cap``.

    Parameters
    ----------
    capacity : float
        Bytes/s; inf if unlimited.

    Attributes
    ----------
    now_s : float
        Time of the last change.
    served : float
        Bytes that a transfer has got which has shared all the time since anybody shared.
    used : float
        Bytes/s of those that are limited by their caps.
    transfers : dict of int to Transfer
        Those under way, by key.
    """

    def __init__(self, capacity: float) -> None:
        self.capacity = capacity
        self.now_s = self.served = self.used = 0.0
        self.transfers: dict[int, Transfer] = {}
        self._order: list[tuple[float, int]] = []  # caps, ascending, and keys
        self._limited = 0  # so many of the first are limited by their caps
        self._ends: tuple[list[tuple[float, int]], ...] = ([], [])  # heaps of marks, by `shares`

    @property
    def next_s(self) -> float:
        """When the next transfer ends if nothing changes before; inf without any."""
        return min(self._first_s(shares=False), self._first_s(shares=True))

    def change(self, now_s: float, begin: Iterable[tuple[int, float, float]] = ()) -> list[int]:
        """Move on to a time that is not after `next_s`: transfers end, and others begin.

        Parameters
        ----------
        now_s : float
        begin : iterable of (key, size, cap)
            Transfers of so many bytes that can use so many bytes/s; without bytes, or without a
            limit, they end at once.

        Returns
        -------
        list of int
            The keys of transfers that end now, ascending.
        """
        ended, begin = self._over(now_s), list(begin)
        if not (ended or begin):
            return []  # a link's clock moves with its own transfers: one order of additions
        self._pass(now_s)
        for key in ended:
            self._remove(key)
        for key, size, cap in begin:
            if size > 0 and min(cap, self.capacity) < math.inf:
                self._add(key, size, cap)
            else:
                ended.add(key)
        self._level()
        return sorted(ended)

    def leave(self, now_s: float, key: int) -> float | None:
        """Break off a transfer; return the bytes that it had left, None if it is not under way."""
        transfer = self.transfers.get(key)
        if transfer is None:
            return None
        self._pass(now_s)
        left = self._left(transfer)
        self._remove(key)
        self._level()
        return left

    def arrays(self) -> dict[str, Array]:
        """Return everything as named arrays."""
        rows = [astuple(transfer) for transfer in self.transfers.values()]
        return {
            "link": np.array([self.capacity, self.now_s, self.served, self.used]),
            "transfers": np.array(rows, dtype=np.float64).reshape(-1, len(fields(Transfer))),
        }

    @classmethod
    def of(cls, arrays: Mapping[str, Array]) -> Link:
        """Return a link from the result of `arrays`."""
        capacity, *clock = arrays["link"].tolist()
        link = cls(capacity)
        link.now_s, link.served, link.used = clock
        for key, cap, shares, *marks in arrays["transfers"].tolist():
            transfer = Transfer(int(key), cap, bool(shares), *marks)
            link.transfers[transfer.key] = transfer
            link._ends[transfer.shares].append((transfer.mark, transfer.key))
        link._order = sorted((t.cap, t.key) for t in link.transfers.values())
        link._limited = len(link._ends[False])
        for heap in link._ends:
            heapify(heap)
        return link

    # -- ends ------------------------------------------------------------------------------

    def _first_s(self, *, shares: bool) -> float:
        """Return when the next of one side ends; marks of the past are dropped."""
        heap = self._ends[shares]
        while heap:
            mark, key = heap[0]
            transfer = self.transfers.get(key)
            if transfer is not None and transfer.shares == shares and transfer.mark == mark:
                return self._end_s(mark) if shares else mark
            heappop(heap)
        return math.inf

    def _end_s(self, mark: float) -> float:
        """Return when a transfer ends that shares.

        The rate is a quotient: three transfers that share 10 bytes/s need an exact time that way.
        """
        sharers = len(self._order) - self._limited
        return self.now_s + (mark - self.served) * sharers / (self.capacity - self.used)

    def _over(self, now_s: float) -> set[int]:
        """Return the transfers that end by a time; one that changed sides may be held twice."""
        over = set()
        for shares in (False, True):
            while self._first_s(shares=shares) <= now_s:
                over.add(heappop(self._ends[shares])[1])
        return over

    def _pass(self, now_s: float) -> None:
        """Move the clock on."""
        sharers = len(self._order) - self._limited
        if sharers:
            self.served += (now_s - self.now_s) * (self.capacity - self.used) / sharers
        self.now_s = now_s

    # -- shares ----------------------------------------------------------------------------

    def _add(self, key: int, size: float, cap: float) -> None:
        place = (cap, key)
        shares = bisect_left(self._order, place) > self._limited or math.isinf(cap)
        insort(self._order, place)
        mark = self.served + size if shares else self.now_s + size / cap
        self.transfers[key] = Transfer(key, cap, shares, mark, size, self.now_s)
        heappush(self._ends[shares], (mark, key))
        if not shares:
            self._limited, self.used = self._limited + 1, self.used + cap

    def _remove(self, key: int) -> None:
        transfer = self.transfers.pop(key)
        del self._order[bisect_left(self._order, (transfer.cap, key))]
        if not transfer.shares:
            self._limited, self.used = self._limited - 1, self.used - transfer.cap

    def _level(self) -> None:
        """Let transfers change sides until all that share have caps above the level."""
        order, most = self._order, len(self._order)
        while self._limited:  # a limited one whose cap is above the level that it would share
            cap, key = order[self._limited - 1]
            if cap * (most - self._limited) <= self.capacity - self.used:
                break
            self._limited, self.used = self._limited - 1, self.used - cap
            self._move(key, shares=True)
        if not self._limited:
            self.used = 0.0  # what rounding has left
        while self._limited < most:
            cap, key = order[self._limited]
            if cap * (most - self._limited) > self.capacity - self.used:
                break
            self._limited, self.used = self._limited + 1, self.used + cap
            self._move(key, shares=False)
        if self._limited == most:
            self.served = 0.0  # it would lose digits if it grew for ever

    def _left(self, transfer: Transfer) -> float:
        """Return the bytes that a transfer has left now."""
        if transfer.shares:
            return transfer.mark - self.served
        return transfer.left - (self.now_s - transfer.since_s) * transfer.cap

    def _move(self, key: int, *, shares: bool) -> None:
        transfer = self.transfers[key]
        left = self._left(transfer)
        mark = self.served + left if shares else self.now_s + left / transfer.cap
        transfer.shares, transfer.mark = shares, mark
        transfer.left, transfer.since_s = left, self.now_s
        heappush(self._ends[shares], (mark, key))
