"""The four data sets of FedHybrid's experiments, reproduced exactly.

Niu and Wei, "FedHybrid: A Hybrid Federated Optimization Method for Heterogeneous Clients", 2021,
https://arxiv.org/abs/2106.01279; generated as in the authors' code
(https://github.com/xiaochunniu/FedHybrid) and in the follow-up study by the same group
(https://github.com/ZhijingZeng/fedHybrid-experiment). Both seed NumPy's legacy generator and
Python's ``random`` with 2022 and draw from both: each data set here has one stream of each kind
with the same seed. The data sets the clients; the authors' held-out rows are the server's test
rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from random import Random
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from rayfed.core.arrays import Array, Ints
from rayfed.core.errors import ScenarioError
from rayfed.datasets.base import Dataset, Source, Table
from rayfed.datasets.boston import Boston
from rayfed.datasets.mushroom import Mushroom

TEST = 0.3
"""Fraction of real data that is held out."""

START = (
    *(0.99846005, 0.14017568, 0.43901654, 0.71784581, 0.83952553, 0.00799748),
    *(0.7440322, 0.78949782, 0.12399082, 0.85932448, 0.21513528, 0.91062862),
)
"""The random initial model of set-up 3, as published by the follow-up study."""


@dataclass(frozen=True, kw_only=True)
class _Synthetic(Dataset):
    """Base of the two synthetic data sets.

    Parameters
    ----------
    clients : int
        Number of clients, set by the data.
    features : int
        Number d of features; there is no intercept.
    samples : int, optional
        Rows over all clients, in shares proportional to U(0.1, 1), as in the follow-up study. If
        None each client has floor(exp(N(4, 2^2))) + 50, as in the authors' code.
    """

    random: ClassVar[bool] = True

    clients: Annotated[int, Ge(1)]
    features: Annotated[int, Ge(1)]
    samples: Annotated[int, Ge(1)] | None = None

    def streams(self, seed: int) -> tuple[np.random.RandomState, Random, Ints]:
        """Return both streams, and the number of rows of each client (N,) drawn from them."""
        numpy_stream, python_stream = np.random.RandomState(seed), Random(seed)
        if self.samples is not None:
            return numpy_stream, python_stream, shares(python_stream, self.samples, self.clients)
        sizes = numpy_stream.lognormal(4, 2, self.clients).astype(np.int64) + 50
        return numpy_stream, python_stream, sizes

    def table(self, rows: list[tuple[Array, Array]], classes: int = 0) -> Table:
        """Return the table of the rows (X_i, y_i) of every client."""
        return Table(
            np.concatenate([X for X, _ in rows]), np.concatenate([y for _, y in rows]), classes,
            names=tuple(f"x{j}" for j in range(self.features)),
            client=np.repeat(np.arange(self.clients), [len(y) for _, y in rows]),
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class FedHybridQuadratic(_Synthetic):
    """Set-up 1 of FedHybrid: least squares with clients of unequal scale and condition.

    One true model x ~ N(0, 0.5^2)^d for all. Client i has the scale s_i ~ lognormal, features
    s_i U(0, 1)^d and targets A_i x + N(0, U(0, 1)^2). The features of an ill-conditioned client are
    multiplied by 100 U(0, 1) (the first half of the columns) and by 0.01 U(0, 1) (the others).

    The defaults with seed 2022 are the authors'. The follow-up study takes ``samples: 10000``,
    ``scale_mean: 0``, ``scale_sigma: 0.5`` and ``ill_conditioned: 0``; the paper has 20 clients and
    30 features. F is theirs with least-squares, ``half``, ``divide_by: all-samples``, ``l2: 0.01``,
    ``l2_per: population``, ``weighting: sum``, without intercept.

    Parameters
    ----------
    scale_mean, scale_sigma : float
        Of the logarithm of s_i.
    ill_conditioned : int
        Number of ill-conditioned clients, drawn at random.
    """

    name: ClassVar[str] = "fedhybrid-quadratic"

    clients: Annotated[int, Ge(1)] = 10
    features: Annotated[int, Ge(1)] = 3
    scale_mean: float = 2.0
    scale_sigma: Annotated[float, Ge(0)] = 4.0
    ill_conditioned: Annotated[int, Ge(0)] = 4

    def load(self, source: Source, seed: int) -> Table:
        """Return the rows of all clients, one client after the other."""
        if self.ill_conditioned > self.clients:
            raise ScenarioError(
                "problem.dataset.ill_conditioned",
                f"is {self.ill_conditioned} but there are {self.clients} clients; lower it",
            )
        stream, python_stream, sizes = self.streams(self.seeded(seed))
        # same streams and order of draws as the authors, to reproduce their numbers
        truth = stream.normal(0, 0.5, self.features)
        scales = stream.lognormal(self.scale_mean, self.scale_sigma, self.clients)
        ill = python_stream.sample(range(self.clients), self.ill_conditioned)
        well = [i for i in range(self.clients) if i not in ill]
        rows: dict[int, tuple[Array, Array]] = {}
        for i in well + ill:
            spread = self._spread(stream) if i in ill else np.ones(self.features)
            A = stream.rand(sizes[i], self.features) * spread * scales[i]
            noise = stream.normal(0, stream.random_sample(), sizes[i])
            rows[i] = A, A @ truth + noise
        return self.table([rows[i] for i in range(self.clients)])

    def _spread(self, stream: np.random.RandomState) -> Array:
        """Return the factors of the columns of an ill-conditioned client (d,)."""
        half = self.features // 2
        return stream.rand(self.features) * np.where(np.arange(self.features) < half, 1e2, 1e-2)


@dataclass(frozen=True, kw_only=True)
class FedHybridLogistic(_Synthetic):
    """Set-up 3 of FedHybrid: two classes; clients differ in features and in the true model.

    Client i has u_i ~ N(0, 0.5^2), a feature mean v_i ~ N(0, 1)^d, features N(v_i, diag(j^-1.2)),
    W_i ~ N(u_i, 1)^(d x 2), b_i ~ N(u_i, 1)^2 and labels argmax(x'W_i + b_i).

    The defaults with seed 2022 are the rows of the follow-up study, and the first model is the one
    that it wrote down (d = 12 only); only the order of a client's rows differs. The authors' code
    has ``samples: null``, the paper 20 clients and 30 features. F is theirs with
    logistic-regression, ``divide_by: samples``, ``l2: 1``, ``l2_per: sample``, ``weighting: sum``,
    without intercept.
    """

    name: ClassVar[str] = "fedhybrid-logistic"

    clients: Annotated[int, Ge(1)] = 8
    features: Annotated[int, Ge(1)] = 12
    samples: Annotated[int, Ge(1)] | None = 354

    def load(self, source: Source, seed: int) -> Table:
        """Return the rows of all clients, one client after the other."""
        stream, _, sizes = self.streams(self.seeded(seed))
        # same order of draws as the authors, to reproduce their numbers
        n, d = self.clients, self.features
        u = stream.normal(0, 0.5, n)
        stream.normal(0, 0.5, n)  # means of v that the authors draw and do not use
        v = stream.normal(0, 1, (n, d))
        rows = [self._client(stream, u[i], v[i], sizes[i]) for i in range(n)]
        start = np.array(START) if d == len(START) else None
        return replace(self.table(rows, classes=2), start=start)

    def _client(
        self, stream: np.random.RandomState, u: float, v: Array, size: int
    ) -> tuple[Array, Array]:
        d = self.features
        W, b = stream.normal(u, 1, (d, 2)), stream.normal(u, 1, 2)
        # what NumPy's multivariate normal draws where the covariance is diagonal and falling
        A = stream.standard_normal((size, d)) * np.arange(1.0, d + 1) ** -0.6 + v
        return A, np.argmax(A @ W + b, axis=1)


@dataclass(frozen=True, kw_only=True)
class FedHybridBoston(Dataset):
    """Set-up 2 of FedHybrid: Boston housing, sorted by price and cut into clients of mixed size.

    152 of 506 rows are the server's test rows, drawn as scikit-learn's ``train_test_split`` does
    with random state 5; the others are shuffled, sorted and cut into blocks with shares
    proportional to U(0.1, 1). Features are standardised over all rows.

    Seed 2022 makes the published blocks, 45 38 29 12 62 76 36 56. F is theirs with least-squares,
    ``half``, ``divide_by: all-samples``, ``l2: 1``, ``l2_per: population``, ``weighting: sum``.

    Parameters
    ----------
    clients : int
        Number of clients, set by the data.

    Notes
    -----
    The authors hand every client a prefix of the sorted rows; blocks are what the follow-up study
    and a correction of their code make. Rows of one price keep their shuffled order here.
    """

    name: ClassVar[str] = "fedhybrid-boston"
    random: ClassVar[bool] = True

    clients: Annotated[int, Ge(1)] = 8

    def load(self, source: Source, seed: int) -> Table:
        """Return the training rows, one client after the other, and the test rows."""
        table = Boston().load(source, seed)
        seed = self.seeded(seed)
        order = np.random.RandomState(5).permutation(len(table.y))
        held = math.ceil(TEST * len(order))
        train = np.random.RandomState(seed).permutation(order[held:])
        train = train[np.argsort(table.y[train], kind="stable")]
        sizes = shares(Random(seed), len(train), self.clients)
        return blocks(table, train, order[:held], sizes)


@dataclass(frozen=True, kw_only=True)
class FedHybridMushroom(Dataset):
    """Set-up 4 of FedHybrid: mushrooms, sorted by class and cut into clients of mixed size.

    Rows with a missing stalk-root are dropped, which leaves 5644, attributes are one-hot (98
    columns) and standardised over all rows. 1694 rows are the server's test rows, drawn as
    scikit-learn's stratified ``train_test_split`` does with random state 42; the others are
    shuffled, sorted by class and cut into blocks with shares proportional to
    exp(N(4, 2^2)) + 50.

    Seed 2022 makes the published blocks, 273 239 317 237 228 221 2154 281: six clients know only
    edible mushrooms, one only poisonous ones. F is theirs with logistic-regression,
    ``divide_by: samples``, ``l2: 1``, ``l2_per: sample``, ``weighting: sum``.

    Parameters
    ----------
    clients : int
        Number of clients, set by the data.
    """

    name: ClassVar[str] = "fedhybrid-mushroom"
    random: ClassVar[bool] = True

    clients: Annotated[int, Ge(1)] = 8

    def load(self, source: Source, seed: int) -> Table:
        """Return the training rows, one client after the other, and the test rows."""
        table = Mushroom(missing="drop", standardise=True).load(source, seed)
        stream = np.random.RandomState(self.seeded(seed))
        train, test = stratified(table.y, TEST, np.random.RandomState(42))
        train = stream.permutation(train)
        train = train[np.argsort(table.y[train], kind="stable")]
        weights = np.array([stream.lognormal(4, 2) + 50 for _ in range(self.clients)])
        return blocks(table, train, test, cut(weights, len(train)))


def shares(stream: Random, n: int, clients: int) -> Ints:
    """Return the sizes (N,) of clients that divide n rows in proportion to U(0.1, 1)."""
    return cut(np.array([stream.uniform(0.1, 1) for _ in range(clients)]), n)


def cut(weights: Array, n: int) -> Ints:
    """Divide n in proportion to weights (N,), rounded down; the last gets the remainder.

    Examples
    --------
    >>> cut(np.array([1.0, 1.0, 1.0]), 11).tolist()
    [3, 3, 5]

    Raises
    ------
    ScenarioError
        If a size is 0.
    """
    sizes: Ints = (weights / weights.sum() * n).astype(np.int64)
    sizes[-1] += n - sizes.sum()
    if sizes.min() == 0:
        raise ScenarioError(
            "problem.dataset.clients", f"{len(sizes)} leaves a client without rows; use fewer"
        )
    return sizes


def stratified(y: Ints, fraction: float, stream: np.random.RandomState) -> tuple[Ints, Ints]:
    """Return training and test rows with the same class proportions (stratified).

    The draws are those of scikit-learn's ``train_test_split(..., stratify=y)``: numbers for each
    class are rounded down and the rest goes to the largest remainders; the rows of a class are
    permuted, training rows first; finally both parts are permuted.

    Parameters
    ----------
    y : (n,) array of int
        Classes 0..c-1.
    fraction : float
        Fraction of test rows, rounded up.
    stream : RandomState
        Source of the draws.
    """
    counts = np.bincount(y)
    held = math.ceil(fraction * len(y))
    train = _by_remainder(counts, len(y) - held, stream)
    test = _by_remainder(counts - train, held, stream)
    parts: tuple[list[Ints], list[Ints]] = ([], [])
    for label, count in enumerate(counts):
        rows = np.flatnonzero(y == label)[stream.permutation(count)]
        parts[0].append(rows[: train[label]])
        parts[1].append(rows[train[label] : train[label] + test[label]])
    first, second = (np.concatenate(rows) for rows in parts)
    return stream.permutation(first), stream.permutation(second)


def _by_remainder(counts: Ints, draws: int, stream: np.random.RandomState) -> Ints:
    """Return the number of rows of each class (c,) among `draws`; ties are drawn."""
    exact = counts / counts.sum() * draws
    taken: Ints = np.floor(exact).astype(np.int64)
    remainders, missing = exact - np.floor(exact), draws - int(taken.sum())
    for remainder in np.unique(remainders)[::-1]:
        tied = np.flatnonzero(remainders == remainder)
        extra = min(len(tied), missing)
        if extra:
            taken[stream.choice(tied, size=extra, replace=False)] += 1
        missing -= extra
    return taken


def blocks(table: Table, train: Ints, test: Ints, sizes: Ints) -> Table:
    """Return the table of training rows in contiguous blocks, with test rows for the server.

    Parameters
    ----------
    table : Table
        All rows.
    train, test : array of int
        Training and test rows.
    sizes : (N,) array of int
        Number of rows of ``train`` for each client.
    """
    held = Table(table.X[test], table.y[test], table.classes, table.names, labels=table.labels)
    return Table(
        table.X[train], table.y[train], table.classes, table.names,
        client=np.repeat(np.arange(len(sizes)), sizes), test=held, labels=table.labels,
    )  # fmt: skip
