"""Assignment of rows to clients, for training and held out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rayfed.core.arrays import Bools, Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import ONE_TARGET
from rayfed.core.rng import Key
from rayfed.core.shares import rounded
from rayfed.core.targets import Targets
from rayfed.datasets.base import Table
from rayfed.datasets.partitions.base import Partition
from rayfed.datasets.partitions.blocks import IID
from rayfed.datasets.shards import PARTS


@dataclass(frozen=True)
class ClientRows:
    """Row numbers, sorted by client.

    Parameters
    ----------
    rows : (n,) array of int64
        Numbers of rows of the table.
    offsets : (N + 1,) array of int64
        Client i owns ``rows[offsets[i]:offsets[i + 1]]``.
    """

    rows: Ints
    offsets: Ints

    @classmethod
    def of(cls, rows: Ints, owner: Ints, clients: int) -> ClientRows:
        """Return the part with the client (n,) of each row (n,); rows keep their order."""
        counts = np.bincount(owner, minlength=clients)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        return cls(rows[np.argsort(owner, kind="stable")], offsets)

    def sizes(self, ids: Ints) -> Ints:
        """Return the number of rows of each client (K,)."""
        return np.asarray(self.offsets[ids + 1] - self.offsets[ids])

    def of_client(self, client: int) -> Ints:
        """Return the row numbers of one client."""
        return self.rows[self.offsets[client] : self.offsets[client + 1]]

    def of_clients(self, ids: Ints) -> ClientRows:
        """Return the rows of some clients (K,), which are 0, 1, ... then."""
        sizes = self.sizes(ids)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        places = np.arange(offsets[-1]) + np.repeat(self.offsets[ids] - offsets[:-1], sizes)
        return ClientRows(self.rows[places], offsets)

    def centralised(self) -> ClientRows:
        """Return the same rows, assigned to one client."""
        return ClientRows(self.rows, np.array([0, len(self.rows)]))


@dataclass(frozen=True)
class Split:
    """The rows of every client of a study.

    Parameters
    ----------
    train, test : ClientRows
        Training rows, and the rows that each client holds out.
    flipped : (n,) array of bool, optional
        Rows of the table with flipped labels, if any.
    validation : ClientRows, optional
        Further rows that each client holds out, to choose settings by, if any.
    """

    train: ClientRows
    test: ClientRows
    flipped: Bools | None = None
    validation: ClientRows | None = None

    @property
    def clients(self) -> int:
        """Number N of clients."""
        return len(self.train.offsets) - 1

    def of_clients(self, ids: Ints) -> Split:
        """Return the rows of some clients (K,), which are 0, 1, ... then."""
        train, test, validation = (self.part(name).of_clients(ids) for name in PARTS)
        return replace(self, train=train, test=test, validation=validation)

    def part(self, name: str) -> ClientRows:
        """Return the part "train", "test" or "validation"."""
        if name == "validation":
            nothing = ClientRows(np.zeros(0, np.int64), np.zeros_like(self.train.offsets))
            return self.validation or nothing
        return {"train": self.train, "test": self.test}[name]


def split(
    table: Table,
    partition: Partition | None,
    clients: int | None,
    seed: int,
    test: float,
    validation: float = 0.0,
) -> Split:
    """Assign rows to clients and hold some out.

    Parameters
    ----------
    table : Table
        The data.
    partition : Partition, optional
        How rows are assigned. If None: the table's clients if it has any, otherwise iid.
    clients : int, optional
        Number N of clients, if the data or the partition does not define it.
    seed : int
        Seed of the run; the partition's seed takes precedence, also for held-out rows.
    test : float
        Each client holds out ``round(test * n_i)`` of its rows, but keeps at least one.
    validation : float
        Of the rows that are left, each client holds out another ``round(validation * n_i)``, but
        keeps at least one. The test rows are the same with and without them.

        Rows that the data say are held out are so, and these fractions are of the others.

    Raises
    ------
    ScenarioError
        If the number of clients is missing or contradicts the data, a client has no rows to train
        with, or a fraction is given where the data say which rows are held out.
    """
    _check_fractions(table, test, validation)
    if partition is not None and partition.seed is not None:
        seed = partition.seed
    owner, count = owners(table, partition, clients, seed)
    rows = np.flatnonzero(owner >= 0)
    owner = owner[rows]
    free = table.given("train")[rows]
    sizes = np.bincount(owner[free], minlength=count)
    _none_empty(sizes, partition, table)
    place = np.full(len(rows), len(rows))
    place[free] = _places(owner[free], sizes, seed)
    ends = held_out(sizes, test, validation)
    tested = (place < ends[0][owner]) | table.given("test")[rows]
    validated = ~tested & ((place < ends[1][owner]) | table.given("validation")[rows])
    own = rows[~tested], owner[~tested]
    trained = ~tested & ~validated
    return Split(
        train=ClientRows.of(rows[trained], owner[trained], count),
        test=ClientRows.of(rows[tested], owner[tested], count),
        flipped=_flipped(table, partition, ClientRows.of(*own, count), seed),
        validation=ClientRows.of(rows[validated], owner[validated], count),
    )


def held_out(sizes: Ints, test: float, validation: float) -> tuple[Ints, Ints]:
    """Return the number of held-out rows of each client (K,): for tests, and in all.

    Parameters
    ----------
    sizes : (K,) array of int
        All rows of each client; one of them at least stays for training.
    test, validation : float
        Fractions of them.

    Examples
    --------
    >>> [held.tolist() for held in held_out(np.array([1, 2, 10]), 0.5, 0.4)]
    [[0, 1, 5], [0, 1, 9]]
    """
    tested = np.minimum(rounded(test, sizes), sizes - 1)
    return tested, np.minimum(tested + rounded(validation, sizes), sizes - 1)


def owners(
    table: Table, partition: Partition | None, clients: int | None, seed: int
) -> tuple[Ints, int]:
    """Return the client of each row (n,), -1 for unused rows, and the number of clients.

    Raises
    ------
    ScenarioError
        As in `split`.
    """
    if table.client is not None:
        if partition is not None:
            raise ScenarioError(
                "partition", "the data assigns rows to clients; leave the partition out"
            )
        count = int(table.client.max()) + 1
        return table.client, _agreed(clients, count, "the data")
    partition = partition or IID()
    if ONE_TARGET in partition.needs and table.y.ndim > 1:  # before rows are sorted by it
        text = f"'{partition.name}' needs {ONE_TARGET.needed}, and the data have"
        raise ScenarioError("partition", f"{text} {Targets.of(table.y)}; use iid or sizes")
    defined = partition.count(table)
    if defined is not None and not (partition.first and clients is not None and clients < defined):
        clients = _agreed(clients, defined, f"partition '{partition.name}'")
    if clients is None:
        raise ScenarioError("clients.count", "is missing; give the number of clients")
    if clients > len(table.y):
        raise ScenarioError(
            "clients.count", f"{clients} clients cannot share {len(table.y)} rows; use fewer"
        )
    return partition.assign(table, clients, seed), clients


def _agreed(asked: int | None, count: int, source: str) -> int:
    if asked is not None and asked != count:
        raise ScenarioError(
            "clients.count", f"is {asked} but {source} has {count} clients; leave it out"
        )
    return count


def _check_fractions(table: Table, test: float, validation: float) -> None:
    """Refuse to draw rows of a part that the data have."""
    for part, fraction in (("test", test), ("validation", validation)):
        given = int(table.given(part).sum())
        if fraction and given:
            text = f"found {fraction:g}, but the data say which rows are for {part}, {given:,}"
            raise ScenarioError(f"problem.{part}", f"{text}; leave it out")


def _none_empty(sizes: Ints, partition: Partition | None, table: Table) -> None:
    empty = np.flatnonzero(sizes == 0)
    if len(empty) and table.client is not None and table.part is not None:
        name = f"'{table.client_names[empty[0]]}'" if table.client_names else str(empty[0])
        text = f"client {name} has held-out rows and none to train with"
        raise ScenarioError("problem.dataset", f"{text}; give it some, or leave it out")
    if len(empty):
        remedy = "give it one" if partition is None else partition.remedy
        raise ScenarioError("partition", f"client {empty[0]} has no rows; {remedy}")


def _flipped(table: Table, partition: Partition | None, own: ClientRows, seed: int) -> Bools | None:
    """Return which rows of the table (n,) have flipped labels, or None.

    They are those that a client learns from and chooses settings by; tests have the right labels.
    """
    if partition is None or not partition.flip:
        return None
    flips = partition.flips(len(own.offsets) - 1, seed)
    flipped = np.zeros(len(table.y), dtype=np.bool_)
    flipped[own.rows[np.repeat(flips, np.diff(own.offsets))]] = True
    return flipped


def _places(owner: Ints, sizes: Ints, seed: int) -> Ints:
    """Return the place (n,) of each row among its client's in a keyed shuffle.

    The first of them are held out.
    """
    shuffle = Key(seed, "held-out").generator().permutation(len(owner))
    order = shuffle[np.argsort(owner[shuffle], kind="stable")]
    first = np.cumsum(sizes) - sizes
    place = np.empty(len(owner), dtype=np.int64)
    place[order] = np.arange(len(owner)) - first[owner[order]]
    return place
