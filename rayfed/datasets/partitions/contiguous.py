"""Contiguous: the rows in the order of the file, cut into blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from rayfed.core.arrays import Ints
from rayfed.core.errors import ScenarioError
from rayfed.datasets.base import Table
from rayfed.datasets.partitions.base import Partition


@dataclass(frozen=True, kw_only=True)
class Contiguous(Partition):
    """Client i has the i-th block of the rows, in the order of the data.

    Each of N clients has floor(n / N) rows, and the last the rest as well, as papers on compressed
    and variance-reduced methods split the files of LIBSVM.

    Parameters
    ----------
    rows : list of int
        Number of rows of each client in place of equal ones; must sum to the size of the data.
    """

    name: ClassVar[str] = "contiguous"

    rows: tuple[Annotated[int, Ge(1)], ...] = ()

    def count(self, table: Table) -> int | None:
        """Return the number of listed sizes, or None."""
        return len(self.rows) or None

    def assign(self, table: Table, clients: int, seed: int) -> Ints:
        """Return the client of each row (n,)."""
        n = len(table.y)
        if not self.rows:
            return np.minimum(np.arange(n) // max(1, n // clients), clients - 1)
        if sum(self.rows) != n:
            text = f"add up to {sum(self.rows)} but the data has {n} rows"
            raise ScenarioError("partition.rows", text)
        return np.repeat(np.arange(clients), self.rows)
