"""Partitions by a property of rows: a client for each writer, or for each value of a feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rayfed.core.arrays import Array, Ints
from rayfed.core.errors import ScenarioError, unknown
from rayfed.datasets.base import Table
from rayfed.datasets.partitions.base import Partition


class _ByValue(Partition):
    """Base of partitions into a client for each value, in the order of the values."""

    def count(self, table: Table) -> int:
        """Return the number of values."""
        return len(np.unique(self._values(table)))

    def assign(self, table: Table, clients: int, seed: int) -> Ints:
        """Return the client of each row (n,), -1 for rows of further values."""
        owner = np.unique(self._values(table), return_inverse=True)[1].astype(np.int64)
        return np.where(owner < clients, owner, -1)

    def _values(self, table: Table) -> Array:
        """Return a value of each row (n,)."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Writers(_ByValue):
    """One client for each writer of rows, in the order of their ids.

    With fewer clients than writers, the first ones are used; the rows of other writers are dropped.
    """

    name: ClassVar[str] = "writers"
    first: ClassVar[bool] = True

    def names(self, table: Table, clients: int) -> tuple[str, ...]:
        """Return the names of the writers (N,), if all have one."""
        ids = np.unique(self._values(table))[:clients].tolist()
        known = all(writer in table.writer_names for writer in ids)
        return tuple(table.writer_names[writer] for writer in ids) if known else ()

    def _values(self, table: Table) -> Array:
        if table.writer is None:
            raise ScenarioError(
                "partition",
                "'writers' needs data with writer ids, for example {name: mnist, writers: true}",
            )
        return table.writer


@dataclass(frozen=True, kw_only=True)
class ByColumn(_ByValue):
    """One client for each value of a feature, in the order of the values.

    The column remains a feature. (A column ``client`` of a user's file is not a feature and needs
    no partition.)

    Parameters
    ----------
    column : str
        Name of the feature.
    """

    name: ClassVar[str] = "column"

    column: str

    def _values(self, table: Table) -> Array:
        if self.column not in table.names:
            raise ScenarioError("partition.column", unknown("feature", self.column, table.names))
        return table.column(self.column)
