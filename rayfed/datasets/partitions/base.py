"""Base class of partitions of a table over clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Le

from rayfed.core.arrays import Bools, Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import ROWS, TABLE, Terms
from rayfed.core.rng import Key
from rayfed.core.shares import rounded
from rayfed.datasets.base import Table


@dataclass(frozen=True, kw_only=True)
class Partition:
    """Base of all partitions.

    Parameters
    ----------
    seed : int, optional
        Seed of the assignment and of the held-out rows, in place of the run's seed.
    flip : float
        Fraction of the clients, chosen by the seed, with flipped training labels: class c becomes
        C - 1 - c. Held-out rows keep their labels.
    """

    name: ClassVar[str]
    remedy: ClassVar[str] = "use fewer clients"
    """What to change if a client has no rows."""
    needs: ClassVar[Terms] = frozenset({ROWS, TABLE})
    """What others must leave to it, from `rayfed.core.needs`."""
    first: ClassVar[bool] = False
    """Whether fewer clients than `count` may be used; they are the first ones."""

    seed: int | None = None
    flip: Annotated[float, Ge(0), Le(1)] = 0.0

    def flips(self, clients: int, seed: int) -> Bools:
        """Return which clients (N,) have flipped labels: ``round(flip N)`` of them."""
        place = Key(seed, "flip").permutation(clients)(np.arange(clients))
        return np.asarray(place < rounded(self.flip, clients))

    def count(self, table: Table) -> int | None:
        """Return the number of clients if the partition defines it, else None."""
        return None

    def assign(self, table: Table, clients: int, seed: int) -> Ints:
        """Return the client of each row (n,), -1 for unused rows.

        Raises
        ------
        ScenarioError
            If the partition does not fit the data.
        """
        raise NotImplementedError

    def names(self, table: Table, clients: int) -> tuple[str, ...]:
        """Return the names of the clients (N,) in the data; empty without names."""
        return ()

    def stream(self, seed: int) -> np.random.Generator:
        """Return the random generator of this partition."""
        return Key(seed, "partition").generator()


def by_class(partition: str, table: Table) -> list[Ints]:
    """Return the rows of each class.

    Raises
    ------
    ScenarioError
        If the targets are not classes.
    """
    if table.classes == 0:
        raise ScenarioError(
            "partition", f"'{partition}' needs classes but the targets are numbers; use 'sorted'"
        )
    return [np.flatnonzero(table.y == label) for label in range(table.classes)]


def dealt(rows: Ints, clients: Ints) -> Ints:
    """Return the client of each row (n,), given that ``rows[j]`` goes to ``clients[j]``."""
    owner = np.empty(len(rows), dtype=np.int64)
    owner[rows] = clients
    return owner
