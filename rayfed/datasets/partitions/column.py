"""Column: one client for each value of a feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rayfed.core.arrays import Array, Ints
from rayfed.core.errors import ScenarioError, unknown
from rayfed.datasets.base import Table
from rayfed.datasets.partitions.base import Partition


@dataclass(frozen=True, kw_only=True)
class Column(Partition):
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

    def count(self, table: Table) -> int:
        """Return the number of values."""
        return len(np.unique(self._values(table)))

    def assign(self, table: Table, clients: int, seed: int) -> Ints:
        """Return the client of each row (n,)."""
        return np.unique(self._values(table), return_inverse=True)[1].astype(np.int64)

    def _values(self, table: Table) -> Array:
        if self.column not in table.names:
            raise ScenarioError("partition.column", unknown("feature", self.column, table.names))
        return table.column(self.column)
