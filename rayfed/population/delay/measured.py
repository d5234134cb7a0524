"""Delays measured by client and round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np

from rayfed.core.arrays import Floats, Ints
from rayfed.core.plugins import FilePath
from rayfed.core.rng import Draw
from rayfed.core.tables import OF_GROUP, ClientRows, TraceFile, bound
from rayfed.population.delay.base import Delay

_MOST_ROUNDS = 2**31


@dataclass(frozen=True, kw_only=True)
class MeasuredDelay(Delay):
    """Seconds that were measured for each client and round.

    The file has a row for a client and a round: ``client``, an id from 0 or the name of a client in
    the data, ``round``, from 1, and ``seconds``. These are the seconds of one local step, or of as
    many as a column ``steps`` gives. All requests of a round take the same seconds for a step. For
    asynchronous methods, and for meetings of nodes, ``round`` is the number of a client's task.

    The seconds of a row hold until the next row of the client. The table repeats after its largest
    round, for all clients alike; before its first row a client has the seconds of its last one.
    Every client needs a row, except those whose group has another delay.

    Parameters
    ----------
    file : str
        A CSV or Parquet file, relative to the scenario.
    """

    name: ClassVar[str] = "measured"
    numbered: ClassVar[bool] = True

    file: FilePath

    _names: tuple[str, ...] | None = field(default=None, init=False, repr=False)

    @classmethod
    def example(cls, folder: Path) -> MeasuredDelay:
        """Return a table of 12 clients and two rounds; see `rayfed.testing.examples`."""
        rows = [f"{client},{round},{0.25 * (1 + client % 3 + round)}"
                for client in range(12) for round in (1, 2)]  # fmt: skip
        file = folder / "times.csv"
        file.write_text("\n".join(["client,round,seconds", *rows]), encoding="utf-8")
        return cls(file=str(file))

    def named(self, names: Sequence[str]) -> MeasuredDelay:
        """Return the delay of clients with these names; see `Delay.named`."""
        made = bound(self, names)
        _ = made._rows  # a name that is no client's is refused here
        return made

    def step_seconds(self, ids: Ints, draw: Draw, ask: int, *, seed: int) -> Floats:
        """Return the seconds (K,) of one local step; see `Delay.seconds`."""
        rows = self._rows
        numbers = np.broadcast_to((np.asarray(draw) - 1) % rows.rounds + 1, np.shape(ids))
        place, at = rows.by_client.at(ids, numbers.astype(np.float64))
        first, last = rows.by_client.first[place], rows.by_client.first[place + 1] - 1
        return np.asarray(rows.seconds[np.where(at < first, last, at)])

    def means(self, ids: Ints, *, seed: int) -> Floats:
        """Return the mean seconds (K,) of clients over the rounds of the table."""
        rows = self._rows
        totals = np.add.reduceat(rows.seconds * rows.lasts, rows.by_client.first[:-1])
        return np.asarray(totals[np.searchsorted(rows.by_client.clients, ids)] / rows.rounds)

    def quick_seconds(self, ids: Ints, share: float, *, seed: int) -> Floats:
        """Return the least seconds (K,) of clients."""
        least = np.minimum.reduceat(self._rows.seconds, self._rows.by_client.first[:-1])
        return np.asarray(least[np.searchsorted(self._rows.by_client.clients, ids)])

    def quantile(self, u: Floats) -> Floats:
        """Return the quantiles (K,) over clients and rounds."""
        order = np.argsort(self._rows.seconds, kind="stable")
        until = np.cumsum(self._rows.lasts[order])
        at = np.searchsorted(until, u * until[-1], side="right")
        return np.asarray(self._rows.seconds[order][np.minimum(at, len(order) - 1)])

    def mean(self) -> float:
        """Return the mean over clients and rounds."""
        return float(np.average(self._rows.seconds, weights=self._rows.lasts))

    def check(self) -> None:
        """Read the file."""
        _ = self._rows

    def check_clients(self, count: int) -> None:
        """Refuse rows of clients that there are not."""
        self._rows.by_client.check_clients(count)

    def check_members(self, ids: Ints) -> None:
        """Refuse clients (K,) without a row; names in the file are unknown before the data."""
        if self._names is not None or not self._rows.by_client.by_name:
            self._rows.by_client.check_members(ids, OF_GROUP)

    @cached_property
    def _rows(self) -> _Rows:
        table = TraceFile(self.file, "file")
        if not all(name in table for name in ("client", "round", "seconds")):
            raise table.missing("client, round and seconds")
        table.check_spelling("steps")
        seconds, rounds = table.numbers("seconds"), table.numbers("round", 1)
        for row in np.flatnonzero((rounds % 1 != 0) | (rounds >= _MOST_ROUNDS))[:1]:
            text = f"row {row + 1}: round is {rounds[row]:g}"
            raise table.error(f"{text}; rounds are whole numbers from 1 to {_MOST_ROUNDS - 1}")
        if "steps" in table:
            seconds = seconds / table.numbers("steps", above=True)
        by_client = ClientRows.of(table, rounds, "round", self._names)
        last, first = by_client.first[1:] - 1, by_client.first[:-1]
        lasts = np.append(np.diff(by_client.moments), 0.0)
        lasts[last] = rounds.max() - by_client.moments[last] + by_client.moments[first]
        return _Rows(by_client, seconds[by_client.order], lasts, int(rounds.max()))


class _Rows(NamedTuple):
    """The rows of a file.

    `seconds` (R,) are those of a step, `lasts` (R,) the rounds for which each row holds, and
    `rounds` is the number of rounds after which the table repeats.
    """

    by_client: ClientRows
    seconds: Floats
    lasts: Floats
    rounds: int
