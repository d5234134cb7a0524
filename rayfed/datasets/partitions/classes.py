"""Partitions by class: classes of each client, and the number of rows of each."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar, TypeAlias

import numpy as np
from annotated_types import Ge, Gt

from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import LABELS, ONE_TARGET, Terms
from rayfed.datasets.base import Table
from rayfed.datasets.partitions.base import Partition, by_class, dealt
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
    needs: ClassVar[Terms] = Partition.needs | {LABELS}
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
            among = stream.permutation(np.flatnonzero(holders[:, label]))
            owner[stream.permutation(rows)] = self._share(among, len(rows), stream)
        return owner

    def _share(self, among: Ints, rows: int, stream: np.random.Generator) -> Ints:
        """Return the client of each row of a class that these clients divide."""
        if not self.sigma or rows < len(among):
            return among[np.arange(rows) % len(among)]
        with np.errstate(over="ignore"):
            weights = np.exp(self.sigma * stream.standard_normal(len(among)))
            if not 0 < weights.sum() < np.inf:
                text = f"found {self.sigma:g}, and shares are beyond all numbers"
                raise ScenarioError("partition.sigma", f"{text}; give a smaller one")
        return np.repeat(among, apportion(weights, rows))

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


@dataclass(frozen=True, kw_only=True)
class LabelShards(Partition):
    """Rows are sorted by target, cut into shards of equal size, and dealt, k shards to a client.

    The "pathological" partition of McMahan, Moore, Ramage, Hampson, Aguera y Arcas,
    "Communication-Efficient Learning of Deep Networks from Decentralized Data", AISTATS 2017,
    https://arxiv.org/abs/1602.05629: 200 shards of 300 digits for 100 clients. Most clients have
    rows of at most k classes; a shard that a cut between classes crosses has two. Rows of one class
    are in random order.

    Parameters
    ----------
    per_client : int
        Number k of shards.
    """

    name: ClassVar[str] = "shards"
    needs: ClassVar[Terms] = Partition.needs | {ONE_TARGET}
    remedy: ClassVar[str] = "use fewer clients or a smaller per_client"

    per_client: Annotated[int, Ge(1)] = 2

    def assign(self, table: Table, clients: int, seed: int) -> Ints:
        """Return the client of each row (n,)."""
        n, count = len(table.y), clients * self.per_client
        if count > n:
            text = f"{clients} clients with {self.per_client} shards each cannot share {n} rows"
            raise ScenarioError("partition.per_client", f"{text}; {self.remedy}")
        stream = self.stream(seed)
        shuffle = stream.permutation(n)
        order = shuffle[np.argsort(table.y[shuffle], kind="stable")]
        holder = stream.permutation(count) % clients
        return dealt(order, holder[np.arange(n) * count // n])


Stream: TypeAlias = np.random.Generator | np.random.RandomState


@dataclass(frozen=True, kw_only=True)
class Dirichlet(Partition):
    """Each class is divided over the clients by a draw from a Dirichlet distribution.

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
    needs: ClassVar[Terms] = Partition.needs | {LABELS}
    remedy: ClassVar[str] = "use fewer clients or a larger alpha"
    tries: ClassVar[int] = 1000

    alpha: Annotated[float, Gt(0)]
    balance: bool = False
    min_size: Annotated[int, Ge(0)] = 1
    legacy: bool = False

    def assign(self, table: Table, clients: int, seed: int) -> Ints:
        """Return the client of each row (n,)."""
        stream = legacy_stream(seed) if self.legacy else self.stream(seed)
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
        shares = dirichlet_shares(stream, self.alpha, len(sizes))
        if self.balance:
            open_ = shares * (sizes < n / len(sizes))
            shares = open_ / open_.sum() if open_.sum() > 0 else shares
        cuts = (np.cumsum(shares) * rows).astype(np.int64)[:-1]
        return np.diff(cuts, prepend=0, append=rows)


def legacy_stream(seed: int) -> np.random.RandomState:
    """Return NumPy's legacy generator, which knows 32 bits of seeds only."""
    if seed >= 2**32:
        text = f"found {seed}; legacy generators take seeds below 2**32, give a smaller one"
        raise ScenarioError("partition.seed", text)
    return np.random.RandomState(seed)


_RARE = 1e-6


def dirichlet_shares(stream: Stream, alpha: float, count: int) -> Floats:
    """Draw `count` shares from a symmetric Dirichlet distribution.

    Raises
    ------
    ScenarioError
        If they do not add up to 1: the gamma numbers that are normalised are all 0, as in NumPy's
        legacy generator at a small `alpha`, or their sum overflows.
    """
    with np.errstate(invalid="ignore"):
        shares = stream.dirichlet(np.full(count, alpha))
    if not abs(shares.sum() - 1.0) < _RARE:
        legacy = alpha < 1 and isinstance(stream, np.random.RandomState)
        remedy = "a larger one or legacy: false" if legacy else "a smaller one"
        text = f"found {alpha:g}, from which NumPy draws no shares that add up to 1; use {remedy}"
        raise ScenarioError("partition.alpha", text)
    return np.asarray(shares)


@dataclass(frozen=True, kw_only=True)
class DirichletEqual(Partition):
    """Clients of one size draw their rows one by one, each by its own shares of the classes.

    The shares of classes in a client are a draw from a Dirichlet distribution. Row by row, a client
    that is not full is drawn, and a class by its shares, again if no row of the class is left; so
    the last rows go to whoever is not full yet. Every client has floor(n / N) rows; the rest is
    left out. Jhunjhunwala, Wang, Joshi, "FedExP: Speeding Up Federated Averaging via
    Extrapolation", ICLR 2023, https://arxiv.org/abs/2301.09604, in their code; before them Acar et
    al., "Federated Learning Based on Dynamic Regularization", ICLR 2021,
    https://arxiv.org/abs/2111.04263.

    Parameters
    ----------
    alpha : float
        Concentration; small is heterogeneous.
    legacy : bool
        Whether NumPy's legacy generator draws, seeded by `seed`, and rows of a class keep their
        order, so that the splits of FedExP's code come out.
    """

    name: ClassVar[str] = "dirichlet-equal"
    needs: ClassVar[Terms] = Partition.needs | {LABELS}

    alpha: Annotated[float, Gt(0)]
    legacy: bool = False

    def assign(self, table: Table, clients: int, seed: int) -> Ints:
        """Return the client of each row (n,), -1 for the rest."""
        classes = by_class(self.name, table)
        stream = legacy_stream(seed) if self.legacy else self.stream(seed)
        owner = np.full(len(table.y), -1, np.int64)
        drawn = self._drawn([len(rows) for rows in classes], clients, stream)
        for rows, among in zip(classes, drawn, strict=True):
            order = rows if self.legacy else stream.permutation(rows)
            owner[order[: len(among)]] = among
        return owner

    def _drawn(self, left: list[int], clients: int, stream: Stream) -> list[list[int]]:
        """Return the clients that take the rows of each class, in the order of the rows.

        Parameters
        ----------
        left : list of int
            Rows of each class.
        """
        priors = np.array([dirichlet_shares(stream, self.alpha, len(left)) for _ in range(clients)])
        sums: list[list[float]] = priors.cumsum(axis=1).tolist()
        taken: list[list[int]] = [[] for _ in left]
        size = sum(left) // clients
        room, remaining = [size] * clients, size * clients
        draw = _integers(stream, clients)
        while remaining:
            client = draw()
            if not room[client]:
                continue
            label = _label(sums[client], left, priors[client], stream)
            room[client] -= 1
            left[label] -= 1
            remaining -= 1
            taken[label].append(client)
        return taken


def _label(sums: list[float], left: list[int], prior: Floats, stream: Stream) -> int:
    """Draw a class with remaining rows by a client's shares (C,), given their sums."""
    label = bisect_left(sums, stream.uniform()) % len(sums)
    if left[label]:
        return label
    rest = prior * (np.array(left) > 0)
    mass = rest.sum()
    if mass < _RARE:  # drawing again would hardly ever end
        return int(np.argmax(left))
    if isinstance(stream, np.random.RandomState):
        while not left[label]:
            label = bisect_left(sums, stream.uniform()) % len(sums)
        return label
    return int(np.searchsorted(rest.cumsum(), stream.uniform() * mass, side="right"))


def _integers(stream: Stream, clients: int) -> Callable[[], int]:
    """Return a function that draws one of the clients."""
    if isinstance(stream, np.random.RandomState):
        return lambda: int(stream.randint(clients))
    return lambda: int(stream.integers(clients))
