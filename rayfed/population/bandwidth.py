"""Bandwidths of connections over time, from a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rayfed.core.arrays import Floats, Ints
from rayfed.core.tables import MBPS, ClientRows, TraceFile

_BITS = 8e-6  # megabits in a byte
_LEAST = 1e-9  # Mbit/s; a byte takes two hours
_WAYS = ("down", "up")


@dataclass(frozen=True)
class Bandwidths:
    """Bandwidths of clients that change from row to row of a file.

    Parameters
    ----------
    by_client : ClientRows
        Rows by client and time.
    mbps : list of (R,) array of float or None
        Megabits per second down and up; None where the file does not give them.
    repeat_s : float, optional
        Seconds after which the rows of all clients come again; the last ones hold if None.
    """

    by_client: ClientRows
    mbps: list[Floats | None]
    repeat_s: float | None

    @classmethod
    def read(
        cls, path: str, repeat_s: float | None, names: Sequence[str] | None = None
    ) -> Bandwidths:
        """Read a file.

        Parameters
        ----------
        path : str
            A CSV or Parquet file.
        repeat_s : float, optional
        names : sequence of str, optional
            Of the clients, as `rayfed.core.names.in_column` takes them.

        Raises
        ------
        ScenarioError
            If columns are missing, a cell is invalid, or a transfer might never end.
        """
        table = TraceFile(path, "file")
        table.check_spelling(*MBPS, *(f"{way}_{unit}" for way in _WAYS for unit in MBPS))
        rates = [table.scaled(way, MBPS) for way in _WAYS]
        both = [unit for unit in MBPS if unit in table]
        alone = all(rate is None for rate in rates)
        if "client" not in table or len(both) != alone:
            raise table.missing("client, time_s, and mbps, or down_mbps and up_mbps")
        if alone:
            rates = [table.numbers(both[0]) / MBPS[both[0]]] * 2
        times = table.times()
        if repeat_s is not None and times.max() >= repeat_s:
            text = f"has a row at {times.max():g} s, but repeat_s is {repeat_s:g}"
            raise table.error(f"{text}; give a longer repeat_s")
        rows = ClientRows.of(table, times, "time", names)
        made = cls(rows, [None if rate is None else rate[rows.order] for rate in rates], repeat_s)
        for rate in made.mbps:
            for client in () if rate is None else np.flatnonzero(made._lasting(rate) < _LEAST)[:1]:
                text = f"transfers of client {rows.clients[client]} never end at a bandwidth of 0"
                raise table.error(f"{text}; give a last row above 0, or a repeat_s")
        return made

    def seconds(self, way: int, ids: Ints, size: Floats, start_s: Floats) -> Floats:
        """Return the seconds (K,) of transfers, at the rates of the times that they go through.

        Parameters
        ----------
        way : int
            0 is down, 1 is up.
        ids : (K,) array of int
        size : (K,) array of float
            Bytes.
        start_s : (K,) array of float
        """
        rates = self.mbps[way]
        assert rates is not None  # the connection has looked
        passed, left, now_s = np.zeros(len(ids)), size.copy(), start_s.copy()
        if self.repeat_s is not None:  # all laps but the last two at once
            lap = self._lasting(rates)[np.searchsorted(self.by_client.clients, ids)] * self.repeat_s
            laps = np.maximum(np.floor(left * _BITS / lap) - 1.0, 0.0)
            left, passed = left - laps * lap / _BITS, laps * self.repeat_s
            now_s += passed
        under = np.flatnonzero(left > 0)
        while len(under):
            rate, until_s = self._piece(rates, ids[under], now_s[under])
            with np.errstate(divide="ignore"):
                needs_s = _BITS / rate * left[under]
            ends = now_s[under] + needs_s <= until_s
            done, on = under[ends], under[~ends]
            passed[done] += needs_s[ends]
            lasts_s = until_s[~ends] - now_s[on]
            passed[on] += lasts_s
            left[on] = np.maximum(left[on] - lasts_s * rate[~ends] / _BITS, 0.0)
            now_s[on], under = until_s[~ends], on
        return passed

    def _piece(self, rates: Floats, ids: Ints, now_s: Floats) -> tuple[Floats, Floats]:
        """Return the rates (K,) at times (K,), and until when they hold."""
        rows, lap_s = self.by_client, np.zeros(len(ids))
        if self.repeat_s is not None:
            lap_s = np.floor(now_s / self.repeat_s) * self.repeat_s
        place, at = rows.at(ids, now_s - lap_s)
        first, end = rows.first[place], rows.first[place + 1]
        later_s = np.append(rows.moments, 0.0)[at + 1] + lap_s
        if self.repeat_s is None:  # the first rate holds before the first row too
            until_s = np.where(at + 1 == end, np.inf, later_s)
            return rates[np.maximum(at, first)], until_s
        until_s = np.where(at + 1 == end, lap_s + self.repeat_s, later_s)
        until_s = np.maximum(until_s, np.nextafter(now_s, np.inf))  # a lap may be rounded down
        return rates[np.where(at < first, end - 1, at)], until_s

    def _lasting(self, rates: Floats) -> Floats:
        """Return the mean rate (C,) of a lap by client, or the last one if nothing repeats."""
        first, moments = self.by_client.first, self.by_client.moments
        last = first[1:] - 1
        if self.repeat_s is None:
            return np.asarray(rates[last])
        lasts_s = np.append(np.diff(moments), 0.0)
        lasts_s[last] = self.repeat_s - moments[last] + moments[first[:-1]]
        return np.add.reduceat(rates * lasts_s, first[:-1]) / self.repeat_s
