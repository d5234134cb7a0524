"""Label partition: rows of k classes for every client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from rayfed.core.arrays import Array, Ints
from rayfed.core.errors import ScenarioError
from rayfed.datasets.base import Table
from rayfed.datasets.partitions.base import Partition, by_class
from rayfed.datasets.sizes import apportion


@dataclass(frozen=True, kw_only=True)
class Labels(Partition):
    """Every client has rows of k classes only.

    Classes are assigned at random, each to an as equal as possible number of clients; the rows of a
    class are divided over its clients. After McMahan et al., "Communication-Efficient Learning of
    Deep Networks from Decentralized Data", AISTATS 2017, https://arxiv.org/abs/1602.05629, who
    assign two sorted blocks to each client.

    Parameters
    ----------
    per_client : int
        Number k of classes.
    sigma : float
        Shares of a class are proportional to exp(N(0, sigma^2)); 0 for equal shares.
    """

    name: ClassVar[str] = "labels"
    remedy: ClassVar[str] = "use fewer clients or a larger per_client"

    per_client: Annotated[int, Ge(1)] = 2
    sigma: Annotated[float, Ge(0)] = 0.0

    def assign(self, table: Table, clients: int, seed: int) -> Ints:
        """Return the client of each row (n,)."""
        classes = by_class(self.name, table)
        self._check(len(classes), clients)
        stream = self.stream(seed)
        holders = self._holders(len(classes), clients, stream)
        owner = np.empty(len(table.y), np.int64)
        for label, rows in enumerate(classes):
            who = stream.permutation(np.flatnonzero(holders[:, label]))
            owner[stream.permutation(rows)] = self._share(who, len(rows), stream)
        return owner

    def _share(self, who: Ints, rows: int, stream: np.random.Generator) -> Ints:
        """Return the client of each row of a class that these clients divide."""
        if not self.sigma or rows < len(who):
            return who[np.arange(rows) % len(who)]
        weights = np.exp(self.sigma * stream.standard_normal(len(who)))
        return np.repeat(who, apportion(weights, rows))

    def _check(self, classes: int, clients: int) -> None:
        if self.per_client > classes:
            raise ScenarioError(
                "partition.per_client", f"is {self.per_client} but the data has {classes} classes"
            )
        if clients * self.per_client < classes:
            raise ScenarioError(
                "partition.per_client",
                f"{clients} clients with {self.per_client} each leave some of {classes} classes "
                "without a client; raise it or use more clients",
            )

    def _holders(self, classes: int, clients: int, stream: np.random.Generator) -> Array:
        """Return which client holds which class (N, C): each takes the k least taken so far."""
        holders = np.zeros((clients, classes), dtype=np.bool_)
        taken = np.zeros(classes, dtype=np.int64)
        for client in range(clients):
            chosen = np.lexsort((stream.random(classes), taken))[: self.per_client]
            holders[client, chosen] = True
            taken[chosen] += 1
        return holders
