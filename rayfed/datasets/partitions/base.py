"""How the rows of a table go to clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Le

from rayfed.core.arrays import Bools, Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.datasets.base import Table


@dataclass(frozen=True, kw_only=True)
class Partition:
    """Base of all partitions.

    Parameters
    ----------
    seed : int, optional
        Fixes who has which rows, the held-out rows too, apart from the run's seed.
    flip : float
        Share of the clients, a fixed keyed set, whose training labels are wrong: the first class
        reads as the last, the second as the last but one, and so on. Held-out rows keep theirs.
    """

    name: ClassVar[str]
    remedy: ClassVar[str] = "use fewer clients"
    """What to change where a client is left without rows."""
    first: ClassVar[bool] = False
    """Whether fewer clients than `count` may be asked for: the first of them."""

    seed: int | None = None
    flip: Annotated[float, Ge(0), Le(1)] = 0.0

    def flips(self, clients: int, seed: int) -> Bools:
        """Return which clients (N,) have wrong labels: ``round(flip N)`` of them."""
        place = Key(seed, "flip").permutation(clients)(np.arange(clients))
        return np.asarray(place < round(self.flip * clients))

    def count(self, table: Table) -> int | None:
        """Return the number of clients that the partition itself brings, None for any."""
        return None

    def assign(self, table: Table, clients: int, seed: int) -> Ints:
        """Return the client of each row (n,), -1 for a row that nobody has.

        Raises
        ------
        ScenarioError
            If the partition does not fit the data.
        """
        raise NotImplementedError

    def stream(self, seed: int) -> np.random.Generator:
        """Return the random numbers of this partition."""
        return Key(seed, "partition").generator()


def by_class(partition: str, table: Table) -> list[Ints]:
    """Return the rows of each class.

    Raises
    ------
    ScenarioError
        If the targets are no classes.
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
