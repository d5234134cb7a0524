"""How the rows of a table go to clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, TypeAlias

import numpy as np
from annotated_types import Ge, Gt, Le

from rayfed.datasets.base import Table
from rayfed.datasets.shards import Array, Ints
from rayfed.datasets.sizes import Law, Shares, apportion
from rayfed.errors import ScenarioError, unknown
from rayfed.rng import Key

Bools: TypeAlias = np.ndarray[tuple[int], np.dtype[np.bool_]]
Stream: TypeAlias = np.random.Generator | np.random.RandomState


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


@dataclass(frozen=True, kw_only=True)
class IID(Partition):
    """Every client has a random sample of the rows, of equal size up to one row."""

    name: ClassVar[str] = "iid"

    def assign(self, table: Table, clients: int, seed: int) -> Ints:
        """Return the client of each row (n,)."""
        n = len(table.y)
        return _dealt(self.stream(seed).permutation(n), np.arange(n) % clients)


@dataclass(frozen=True, kw_only=True)
class Dirichlet(Partition):
    """Each class is shared out over the clients by a draw from a Dirichlet distribution.

    Hsu, Qi, Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
    Classification", 2019, https://arxiv.org/abs/1909.06335, in the form of Yurochkin et al.,
    "Bayesian Nonparametric Federated Learning of Neural Networks", ICML 2019,
    https://arxiv.org/abs/1905.12022: shares of clients in each class, not of classes in each
    client. Small alpha: few clients hold most of a class.

    Parameters
    ----------
    alpha : float
        Concentration; small is heterogeneous.
    balance : bool
        A client that already holds n/N rows gets none of the classes that follow (the rule of the
        FedNova authors' code).
    min_size : int
        The whole draw is repeated until every client has this many rows, up to 1000 times.
    legacy : bool
        Whether NumPy's legacy generator draws, seeded by `seed`, so that the splits of published
        code come out. ``{alpha: 0.1, balance: true, min_size: 10, legacy: true,
        seed: 2020}`` is FedNova's, for 16 clients and 5000 rows of each of ten classes.

    Raises
    ------
    ScenarioError
        If `legacy` is asked for with a seed that is not below 2**32.
    """

    name: ClassVar[str] = "dirichlet"
    remedy: ClassVar[str] = "use fewer clients or a larger alpha"
    tries: ClassVar[int] = 1000

    alpha: Annotated[float, Gt(0)]
    balance: bool = False
    min_size: Annotated[int, Ge(0)] = 1
    legacy: bool = False

    def assign(self, table: Table, clients: int, seed: int) -> Ints:
        """Return the client of each row (n,)."""
        stream = _legacy(seed) if self.legacy else self.stream(seed)
        return self.draw(by_class(self.name, table), clients, stream)

    def draw(self, classes: list[Ints], clients: int, stream: Stream) -> Ints:
        """Return the client of each row (n,), given the rows of each class.

        For each class: shuffle its rows, draw the shares, cut.
        """
        n = sum(len(rows) for rows in classes)
        for _ in range(self.tries):
            owner, sizes = np.empty(n, np.int64), np.zeros(clients, np.int64)
            for rows in classes:
                shuffled = rows.copy()
                stream.shuffle(shuffled)
                counts = self._counts(len(rows), sizes, n, stream)
                owner[shuffled] = np.repeat(np.arange(clients), counts)
                sizes += counts
            if sizes.min() >= self.min_size:
                return owner
        raise ScenarioError(
            "partition",
            f"none of {self.tries} draws gave every client {self.min_size} rows; {self.remedy}",
        )

    def _counts(self, rows: int, sizes: Ints, n: int, stream: Stream) -> Ints:
        shares = stream.dirichlet(np.full(len(sizes), self.alpha))
        if self.balance:
            open_ = shares * (sizes < n / len(sizes))
            shares = open_ / open_.sum() if open_.sum() > 0 else shares
        cuts = (np.cumsum(shares) * rows).astype(np.int64)[:-1]
        return np.diff(cuts, prepend=0, append=rows)


@dataclass(frozen=True, kw_only=True)
class Labels(Partition):
    """Every client has rows of k classes only.

    Classes are dealt at random, each to as equal a number of clients as can be; the rows of a
    class are shared by its clients. After McMahan et al., "Communication-Efficient Learning of
    Deep Networks from Decentralized Data", AISTATS 2017, https://arxiv.org/abs/1602.05629, who
    deal two sorted blocks to each client.

    Parameters
    ----------
    per_client : int
        Number k of classes.
    sigma : float
        How uneven the shares of a class are: in proportion to exp(N(0, sigma^2)), 0 for equal.
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
            owner[stream.permutation(rows)] = self._dealt(who, len(rows), stream)
        return owner

    def _dealt(self, who: Ints, rows: int, stream: np.random.Generator) -> Ints:
        """Return the client of each of so many rows of a class that these clients share."""
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
                "to nobody; raise it or use more clients",
            )

    def _holders(self, classes: int, clients: int, stream: np.random.Generator) -> Array:
        """Return who holds which class (N, C): each client takes the k least taken so far."""
        holders = np.zeros((clients, classes), dtype=np.bool_)
        taken = np.zeros(classes, dtype=np.int64)
        for client in range(clients):
            chosen = np.lexsort((stream.random(classes), taken))[: self.per_client]
            holders[client, chosen] = True
            taken[chosen] += 1
        return holders


@dataclass(frozen=True, kw_only=True)
class _Sized(Shares, Partition):
    """What partitions into clients of different sizes share."""

    def count(self, table: Table) -> int | None:
        """Return how many sizes are listed, if any are."""
        return len(self.rows) or None


@dataclass(frozen=True, kw_only=True)
class Sorted(_Sized):
    """Rows are sorted by target and cut into contiguous blocks, one for each client.

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
        return _dealt(order, np.repeat(np.arange(clients), sizes))


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
        return _dealt(order, np.repeat(np.arange(clients), sizes))


@dataclass(frozen=True, kw_only=True)
class Column(Partition):
    """One client for each value of a feature, in the order of the values.

    The column stays a feature. (A column of the user's file that is called ``client`` is no
    feature, and needs no partition.)

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


@dataclass(frozen=True, kw_only=True)
class Writers(Partition):
    """One client for each person who wrote the rows, in the order of their ids.

    Where fewer clients than writers are asked for, they are the first ones; the rows of the other
    writers are not used.
    """

    name: ClassVar[str] = "writers"
    first: ClassVar[bool] = True

    def count(self, table: Table) -> int:
        """Return the number of writers."""
        return len(np.unique(self._writer(table)))

    def assign(self, table: Table, clients: int, seed: int) -> Ints:
        """Return the client of each row (n,), -1 for rows of further writers."""
        owner = np.unique(self._writer(table), return_inverse=True)[1].astype(np.int64)
        return np.where(owner < clients, owner, -1)

    def _writer(self, table: Table) -> Ints:
        if table.writer is None:
            raise ScenarioError(
                "partition",
                "'writers' needs data that says who wrote what: {name: mnist, writers: true}",
            )
        return table.writer


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


def _legacy(seed: int) -> np.random.RandomState:
    """Return NumPy's legacy generator, which knows 32 bits of seeds only."""
    if seed >= 2**32:
        found = f"found {seed}; legacy generators take seeds below 2**32, give a smaller one"
        raise ScenarioError("partition.seed", found)
    return np.random.RandomState(seed)


def _dealt(rows: Ints, clients: Ints) -> Ints:
    """Return the client of each row (n,), given that ``rows[j]`` goes to ``clients[j]``."""
    owner = np.empty(len(rows), dtype=np.int64)
    owner[rows] = clients
    return owner
