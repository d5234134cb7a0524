"""Partitions into clients of different sizes, sorted by target or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rayfed.core.arrays import Ints
from rayfed.datasets.base import Table
from rayfed.datasets.partitions.base import Partition, dealt
from rayfed.datasets.sizes import Law, Shares


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
