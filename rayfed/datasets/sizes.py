"""Numbers of rows per client, for tables and for generators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypeAlias

import numpy as np
from annotated_types import Ge, Gt, Le

from rayfed.core.arrays import Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.datasets.shards import EXACT_SIZES

MOST_ROWS = 2**31 - 1
"""Of a client; those of 2**32 clients fit int64."""
Law: TypeAlias = Literal["equal", "lognormal", "power", "uniform"]


@dataclass(frozen=True, kw_only=True)
class LognormalSizes:
    """n_i = floor(exp(N(mean, sigma^2))) + plus, as in the code of FedProx.

    Parameters
    ----------
    mean, sigma : float
        Mean and standard deviation of the logarithm.
    plus : int
        Rows added for every client.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    mean: float = 4.0
    sigma: Annotated[float, Ge(0)] = 2.0
    plus: Annotated[int, Ge(1)] = 50

    distinct: ClassVar[float] = float("inf")

    def sizes(self, key: Key, ids: Ints) -> Ints:
        """Return the rows of each client (K,)."""
        with np.errstate(over="ignore", invalid="ignore"):
            drawn = np.exp(self.mean + self.sigma * key.normals(ids))
        if not (drawn <= MOST_ROWS).all():
            text = f"found mean {self.mean:g} and sigma {self.sigma:g}, which make a client with"
            remedy = f"more than {MOST_ROWS:,} rows; give a smaller one"
            raise ScenarioError("problem.dataset.samples", f"{text} {remedy}")
        return np.asarray(drawn.astype(np.int64) + self.plus)


@dataclass(frozen=True, kw_only=True)
class UniformSizes:
    """n_i is uniform on low..high, both included.

    Parameters
    ----------
    low, high : int
        Smallest and largest number of rows.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    low: Annotated[int, Ge(1)]
    high: Annotated[int, Ge(1)]

    def __post_init__(self) -> None:
        if self.high < self.low:
            raise ValueError(f"high is {self.high}, below low, {self.low}; exchange them")

    @property
    def distinct(self) -> int:
        """Number of possible sizes."""
        return self.high - self.low + 1

    def sizes(self, key: Key, ids: Ints) -> Ints:
        """Return the rows of each client (K,)."""
        spread = np.full(len(ids), self.distinct)
        return self.low + key.integers(ids, spread, 1)[:, 0]


Samples: TypeAlias = Annotated[int, Ge(1)] | UniformSizes | LognormalSizes


def sizes(samples: int | UniformSizes | LognormalSizes, key: Key, ids: Ints) -> Ints:
    """Return the rows of each client (K,), a pure function of the key and the id."""
    if isinstance(samples, int):
        return np.full(len(ids), samples, dtype=np.int64)
    return samples.sizes(key, ids)


def few(samples: int | UniformSizes | LognormalSizes) -> bool:
    """Return whether at most `EXACT_SIZES` sizes are possible, so that no padding is needed."""
    return isinstance(samples, int) or samples.distinct <= EXACT_SIZES


@dataclass(frozen=True, kw_only=True)
class Shares:
    """Distribution of the numbers of rows over clients.

    Parameters
    ----------
    law : "equal", "lognormal", "power" or "uniform"
        Sizes in proportion to 1; to exp(N(mean, sigma^2)) + plus; to k^-exponent for the client of
        rank k, ranks in random order; to U(low, 1).
    mean, sigma, plus : float
        Parameters of law "lognormal".
    exponent : float
        Parameter of law "power".
    low : float
        Parameter of law "uniform".
    rows : list of int
        Number of rows of each client, in place of a law; must sum to the size of the data.
    """

    law: Law = "equal"
    mean: float = 4.0
    sigma: Annotated[float, Ge(0)] = 2.0
    plus: Annotated[float, Ge(0)] = 50.0
    exponent: Annotated[float, Ge(0)] = 1.0
    low: Annotated[float, Gt(0), Le(1)] = 0.1
    rows: tuple[Annotated[int, Ge(1)], ...] = ()

    def shared(self, n: int, clients: int, rng: np.random.Generator) -> Ints:
        """Divide n rows over clients and return their sizes (N,), at least 1 each.

        Raises
        ------
        ScenarioError
            If `rows` does not fit the data, or numbers of law "lognormal" have no finite sum.
        """
        if not self.rows:
            with np.errstate(over="ignore"):
                weights = self._weights(clients, rng)
            if not np.isfinite(weights.sum()):
                text = f"found mean {self.mean:g}, sigma {self.sigma:g} and plus {self.plus:g}"
                remedy = "sizes are too large to be counted, use smaller ones"
                raise ScenarioError("partition", f"{text}; {remedy}")
            return apportion(weights, n)
        if sum(self.rows) != n:
            raise ScenarioError(
                "partition.rows", f"add up to {sum(self.rows)} but the data has {n} rows"
            )
        return np.array(self.rows, dtype=np.int64)

    def _weights(self, clients: int, rng: np.random.Generator) -> Floats:
        if self.law == "lognormal":
            return np.exp(rng.normal(self.mean, self.sigma, clients)) + self.plus
        if self.law == "power":
            return np.asarray(rng.permutation(np.arange(1.0, clients + 1) ** -self.exponent))
        if self.law == "uniform":
            return rng.uniform(self.low, 1.0, clients)
        return np.ones(clients)


def apportion(weights: Floats, n: int) -> Ints:
    """Divide n rows in proportion to weights (N,), N <= n, with at least one row for each.

    Numbers are rounded down and the rest goes to the largest remainders, ties to the first.

    Examples
    --------
    >>> apportion(np.array([1.0, 1.0, 8.0]), 20).tolist()
    [2, 2, 16]
    >>> apportion(np.array([1.0, 1.0, 998.0]), 10).tolist()
    [1, 1, 8]
    """
    free = n - len(weights)
    exact = np.maximum(weights / weights.sum() * n - 1.0, 0.0)
    exact *= free / exact.sum() if exact.sum() else 0.0
    floors: Ints = np.floor(exact).astype(np.int64)
    order = np.argsort(floors - exact, kind="stable")
    floors[order[: free - floors.sum()]] += 1
    return np.asarray(floors + 1)
