"""IID: a random sample of the rows for every client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rayfed.core.arrays import Ints
from rayfed.datasets.base import Table
from rayfed.datasets.partitions.base import Partition, dealt


@dataclass(frozen=True, kw_only=True)
class IID(Partition):
    """Every client has a random sample of the rows, of equal size up to one row."""

    name: ClassVar[str] = "iid"

    def assign(self, table: Table, clients: int, seed: int) -> Ints:
        """Return the client of each row (n,)."""
        n = len(table.y)
        return dealt(self.stream(seed).permutation(n), np.arange(n) % clients)
