"""Partitions into random samples and blocks of given sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from rayfed.core.arrays import Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import ONE_TARGET, Terms
from rayfed.datasets.base import Table
from rayfed.datasets.partitions.base import Partition, dealt
from rayfed.datasets.sizes import Law, Shares


@dataclass(frozen=True, kw_only=True)
class IID(Partition):
    """Every client has a random sample of the rows, of equal size up to one row."""

    name: ClassVar[str] = "iid"

    def assign(self, table: Table, clients: int, seed: int) -> Ints:
        """Return the client of each row (n,)."""
        n = len(table.y)
        return dealt(self.stream(seed).permutation(n), np.arange(n) % clients)


@dataclass(frozen=True, kw_only=True)
class _Sized(Shares, Partition):
    """Base of partitions into clients of different sizes."""

    def count(self, table: Table) -> int | None:
        """Return the number of listed sizes, or None."""
        return len(self.rows) or None


@dataclass(frozen=True, kw_only=True)
class Sorted(_Sized):
    """Rows are sorted by target and divided into contiguous blocks, one per client.

    Rows of one target value are in random order. Niu and Wei, "FedHybrid: A Hybrid Federated
    Optimization Method for Heterogeneous Clients", 2021, https://arxiv.org/abs/2106.01279, cut
    with sizes of law "uniform" or "lognormal".
    """

    name: ClassVar[str] = "sorted"
    needs: ClassVar[Terms] = Partition.needs | {ONE_TARGET}

    def assign(self, table: Table, clients: int, seed: int) -> Ints:
        """Return the client of each row (n,)."""
        stream = self.stream(seed)
        shuffle = stream.permutation(len(table.y))
        order = shuffle[np.argsort(table.y[shuffle], kind="stable")]
        sizes = self.shared(len(table.y), clients, stream)
        return dealt(order, np.repeat(np.arange(clients), sizes))


@dataclass(frozen=True, kw_only=True)
class Sizes(_Sized):
    """Every client has a random sample of the rows; the sizes differ."""

    name: ClassVar[str] = "sizes"

    law: Law = "lognormal"

    def assign(self, table: Table, clients: int, seed: int) -> Ints:
        """Return the client of each row (n,)."""
        stream = self.stream(seed)
        order = stream.permutation(len(table.y))
        sizes = self.shared(len(table.y), clients, stream)
        return dealt(order, np.repeat(np.arange(clients), sizes))


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
