"""Trace files: columns of numbers from a user's CSV or Parquet file, checked."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.errors import DataMissing, ScenarioError, clipped, unknown
from rayfed.core.files import SUFFIXES, of_epoch, read_frame
from rayfed.core.names import in_column

if TYPE_CHECKING:
    import pandas as pd

SECONDS = {"s": 1.0, "ms": 1e3}
"""Units of times in names of columns, and how many are a second."""
MBPS = {"mbps": 1.0, "kbps": 1e3}
"""Units of bandwidths in names of columns, and how many are a megabit per second."""

_NEAR = 0.84
"""Similarity of two names of columns from which on one is a typing error of the other."""
_MOST_IDS = 2**32
Named = TypeVar("Named")
OF_GROUP = "give the client a setting of its own in clients.groups"
"""Remedy where a table has no row of a client, for settings that groups may have."""
_KEYS = ("client", "device", "id")
"""Columns whose cells are names."""


class TraceFile:
    """A table with columns read by name.

    Parameters
    ----------
    path : str
        A CSV or Parquet file.
    key : str
        Key of the scenario that names it; errors are raised there.

    Raises
    ------
    DataMissing
        If there is no such file.
    ScenarioError
        If it cannot be read, or has no rows.
    """

    def __init__(self, path: str, key: str) -> None:
        self.path, self.key = Path(path), key
        if not path.endswith(SUFFIXES):
            raise self.error("should end in .csv, .csv.gz or .parquet")
        try:
            frame = read_frame(self.path, _KEYS)
        except ScenarioError as error:
            refusal = self.error(error.problem)
            exists = os.path.lexists(path)
            raise refusal if exists else DataMissing(refusal.place, refusal.problem) from error
        if not len(frame):
            raise self.error("has no rows; give at least one below the header")
        self.frame: pd.DataFrame = frame

    def error(self, problem: str) -> ScenarioError:
        """Return an error that names the key and the file."""
        return _refused(self.key, self.path, problem)

    def __contains__(self, name: str) -> bool:
        return name in self.frame.columns

    def missing(self, wanted: str) -> ScenarioError:
        """Return the error of a table without the columns that are needed."""
        found = clipped(", ".join(self.frame.columns), 80)
        return self.error(f"has the columns {found}; give {wanted}")

    def check_spelling(self, *optional: str) -> None:
        """Raise a `ScenarioError` if a column is almost called as an optional one.

        A file may have other columns, which are not read.
        """
        absent = [name for name in optional if name not in self]
        for column in self.frame.columns:
            near = difflib.get_close_matches(column, absent, n=1, cutoff=_NEAR)
            if near and column not in optional:
                raise self.error(f"has the column '{column}'; did you mean '{near[0]}'?")

    def values(self, name: str) -> Array:
        """Return the cells of a column (R,), of any type; empty ones are refused."""
        column = self.frame[name]
        for row in np.flatnonzero(column.isna().to_numpy())[:1]:
            raise self.error(f"row {row + 1}: {name} is empty")
        return np.asarray(column.to_numpy())

    def as_numbers(self, name: str) -> Floats:
        """Return the cells of a column as numbers (R,), NaN where they are none."""
        import pandas as pd  # imported late: needed only to read files

        numbers: Floats = pd.to_numeric(self.frame[name], errors="coerce").to_numpy(np.float64)
        return numbers

    def scaled(
        self, stem: str, units: Mapping[str, float], least: float = 0.0, *, above: bool = False
    ) -> Floats | None:
        """Return a column of a name that ends in its unit, in the first unit.

        Parameters
        ----------
        stem : str
            Such as ``start``, of the columns ``start_s`` and ``start_ms``.
        units : mapping of str to float
            How many of each unit are one of the first, whose number is 1.
        least, above
            As in `numbers`.

        Returns
        -------
        (R,) array of float or None
            None if no unit has a column.

        Raises
        ------
        ScenarioError
            If several have, or a cell is out of range.
        """
        found = [unit for unit in units if f"{stem}_{unit}" in self]
        if len(found) > 1:
            columns = " and ".join(f"{stem}_{unit}" for unit in found)
            raise self.error(f"has the columns {columns}; leave one out")
        if not found:
            return None
        return self.numbers(f"{stem}_{found[0]}", least, above=above) / units[found[0]]

    def numbers(self, name: str, least: float = 0.0, *, above: bool = False) -> Floats:
        """Return a column of finite numbers (R,), all at least, or all above, `least`."""
        numbers = self.as_numbers(name)
        fine = (numbers > least) if above else (numbers >= least)
        for row in np.flatnonzero(~(fine & np.isfinite(numbers)))[:1]:
            found = clipped(self.frame[name].iloc[row], 40)
            bound = f" {'above' if above else 'of at least'} {least:g}" if least > -np.inf else ""
            raise self.error(f"row {row + 1}: {name} is '{found}'; give a number{bound}")
        return numbers

    def times(self) -> Floats:
        """Return the column ``time``, ``time_s`` or ``time_ms`` in seconds (R,).

        Raises
        ------
        ScenarioError
            If there is none of them, a cell is below 0, or times are counted since 1970.
        """
        seconds = self.scaled("time", SECONDS)
        if seconds is None:
            if "time" not in self:
                raise self.missing("time_s (or time_ms)")
            seconds = self.numbers("time")
        self.check_start(float(seconds.min()))
        return seconds

    def check_start(self, first_s: float) -> None:
        """Raise a `ScenarioError` if a trace begins at a time since 1970, not at 0."""
        epoch = of_epoch(first_s)
        if epoch:
            text = f"begins at {first_s:g} s, which {epoch}"
            raise self.error(f"{text}; subtract the time at which the trace begins")


def _refused(key: str, path: Path, problem: str) -> ScenarioError:
    return ScenarioError(key, f"{clipped(path.name, 60)}: {problem}")


def by_name(table: TraceFile) -> bool:
    """Return whether the column ``client`` holds names for sure: texts, or numbers beyond ids."""
    return not bool((table.as_numbers("client") < _MOST_IDS).all())


def clients(table: TraceFile, names: Sequence[str] | None) -> Ints:
    """Return the ids (R,) in the column ``client``, which holds ids or names.

    Parameters
    ----------
    table : TraceFile
    names : sequence of str, optional
        Of the clients, as `rayfed.core.names.in_column` takes them.

    Raises
    ------
    ScenarioError
        If a cell is neither.
    """
    cells, numbers = table.values("client").tolist(), table.as_numbers("client")
    if names is None and by_name(table):
        numbers = np.full(len(cells), np.nan)
    ids, bad = in_column(cells, numbers, names)
    if bad is not None:
        text = f"row {bad + 1}: client is '{clipped(cells[bad], 40)}'"
        if not names:
            text += ", but the data do not name their clients; give ids"
            raise table.error(text)
        raise table.error(f"{text}; {unknown('client', str(cells[bad]), names)}")
    for row in np.flatnonzero((ids % 1 != 0) | (ids < 0) | (ids >= _MOST_IDS))[:1]:
        raise table.error(
            f"row {row + 1}: client is {clipped(cells[row], 40)}; ids are whole numbers from 0"
        )
    return ids.astype(np.int64)


def bound(part: Named, names: Sequence[str]) -> Named:
    """Return a copy of a plug-in with a file, whose `_names` are those of the clients."""
    copied: Any = replace(part)  # type: ignore[type-var]
    object.__setattr__(copied, "_names", tuple(names))
    made: Named = copied
    return made


@dataclass(frozen=True)
class ClientRows:
    """Rows of a file by client, then by moment: a time, or the number of a round.

    Parameters
    ----------
    key : str
        Key of the scenario that names the file.
    path : Path
    by_name : bool
        Whether the file gives some of these clients by name.
    clients : (C,) array of int
        Ids, ascending.
    first : (C + 1,) array of int
        Where the rows of each client begin.
    moments : (R,) array of float
        Ascending for each client.
    order : (R,) array of int
        The places of these rows in the file.
    """

    key: str
    path: Path
    by_name: bool
    clients: Ints
    first: Ints
    moments: Floats
    order: Ints

    @classmethod
    def of(
        cls, table: TraceFile, moments: Floats, called: str, names: Sequence[str] | None = None
    ) -> ClientRows:
        """Return the rows of a file with the column ``client``.

        Parameters
        ----------
        table : TraceFile
        moments : (R,) array of float
        called : str
            What a moment is called in messages.
        names : sequence of str, optional
            Of the clients, as `rayfed.core.names.in_column` takes them.

        Raises
        ------
        ScenarioError
            If a client has two rows for a moment.
        """
        ids, rank = np.unique(clients(table, names), return_inverse=True)
        order = np.lexsort((moments, rank))
        rank, moments = rank[order], moments[order]
        for row in np.flatnonzero((np.diff(rank) == 0) & (np.diff(moments) == 0))[:1]:
            text = f"row {order[row + 1] + 1}: client {table.frame['client'].iloc[order[row + 1]]}"
            raise table.error(f"{text} has {called} {moments[row]:g} twice; keep one of the rows")
        first = np.searchsorted(rank, np.arange(len(ids) + 1))
        return cls(table.key, table.path, by_name(table), ids, first, moments, order)

    def error(self, problem: str) -> ScenarioError:
        """Return an error that names the key and the file."""
        return _refused(self.key, self.path, problem)

    def at(self, ids: Ints, moments: Floats) -> tuple[Ints, Ints]:
        """Return the place (K,) of each client, and of its last row at or before a moment.

        The latter is below ``first`` of the client if there is none.
        """
        place = np.searchsorted(self.clients, ids)
        values, codes = self._ordered
        wanted = place * (len(values) + 1) + np.searchsorted(values, moments, side="right")
        return place, np.searchsorted(codes, wanted, side="right") - 1

    def check_clients(self, count: int) -> None:
        """Raise a `ScenarioError` if there are rows of clients that there are not."""
        if self.clients[-1] >= count:
            raise self.error(f"found client {self.clients[-1]}; ids go from 0 to {count - 1}")

    def check_members(self, ids: Ints, remedy: str) -> None:
        """Raise a `ScenarioError` if one of these clients (K,) has no row.

        It says what else helps than a row.
        """
        for client in np.setdiff1d(ids, self.clients)[:1]:
            raise self.error(f"has no row of client {client}; add one, or {remedy}")

    @cached_property
    def _ordered(self) -> tuple[Floats, Ints]:
        """All moments, ascending, and codes (R,) of client and moment, in the order of rows."""
        values, rank = np.unique(self.moments, return_inverse=True)
        owner = np.repeat(np.arange(len(self.clients)), np.diff(self.first))
        return values, owner * (len(values) + 1) + rank.ravel() + 1
