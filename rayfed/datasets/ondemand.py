"""Generators: rows on demand, as pure functions of the seed and the client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.philox import Words
from rayfed.core.rng import Key
from rayfed.datasets.base import OnDemand
from rayfed.datasets.shards import PARTS, OfLastClients, Shards, on_grid
from rayfed.datasets.sizes import Samples, few, sizes
from rayfed.datasets.split import held_out

_CHUNK = 2**14


@dataclass(frozen=True, kw_only=True)
class Generator(OnDemand):
    """Base of generators of rows.

    Parameters
    ----------
    features : int
        Number d of features.
    samples : int or mapping
        Rows of a client, held-out rows included: the same for all (``20``), uniform on a range
        (``{low: 10, high: 50}``), or lognormal (``{mean: 4, sigma: 2, plus: 50}``).
    """

    features: Annotated[int, Ge(1)] = 60
    samples: Samples = 20

    @property
    def outputs(self) -> int:
        """Number of classes, 0 for regression."""
        return 0

    def draw(self, seed: int, ids: Ints, count: int, part: str) -> tuple[Array, Array]:
        """Draw rows.

        Row j of client i depends only on the seed, i, j and the part.

        Parameters
        ----------
        seed : int
            Seed of the data.
        ids : (K,) array of int
            Clients.
        count : int
            Rows per client.
        part : "train", "test" or "validation"
            Independent samples of a client's distribution.

        Returns
        -------
        X : (K, count, d) array of float64
        y : (K, count) array of float64, or of int64 labels
        """
        raise NotImplementedError

    def shards(
        self,
        clients: int,
        seed: int,
        *,
        dtype: npt.DTypeLike,
        intercept: bool,
        test: float,
        validation: float = 0.0,
    ) -> DrawnShards:
        """Return the rows of N clients, generated lazily; see `OnDemand.shards`."""
        return DrawnShards(
            source=self,
            seed=self.seeded(seed),
            test=test,
            validation=validation,
            clients=clients,
            features=self.features + intercept,
            classes=self.outputs,
            shape=(self.features,),
            dtype=np.dtype(dtype),
        )


@dataclass(frozen=True)
class DrawnShards(Shards):
    """Shards of a generator; only the rows of the last minibatch's clients are cached.

    Parameters
    ----------
    source : Generator
        Generator of the rows.
    seed : int
        Seed of the data.
    test, validation : float
        Each client holds out ``round(test * n_i)`` and ``round(validation * n_i)`` rows, but keeps
        at least one for training.
    clients, features, classes, shape, dtype
        As in `Shards`; a feature beyond the generator's is the column of ones.
    """

    source: Generator
    seed: int
    test: float
    validation: float
    clients: int
    features: int
    classes: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    _last: OfLastClients = field(default_factory=OfLastClients, repr=False, compare=False)

    def sizes(self, ids: Ints, part: str = "train") -> Ints:
        """Return the number of rows n_i of each client (K,)."""
        return self._sizes(ids)[part]

    def _sizes(self, ids: Ints) -> dict[str, Ints]:
        """Return the number of rows of each client (K,) by part."""
        total = sizes(self.source.samples, Key(self.seed, "samples"), ids)
        tested, held = held_out(total, self.test, self.validation)
        return {"train": total - held, "test": tested, "validation": held - tested}

    def widths(self, ids: Ints, part: str = "train") -> Ints:
        """Return the padded widths (K,): the sizes themselves if few are possible."""
        n = self.sizes(ids, part)
        return n if few(self.source.samples) else on_grid(n)

    def rows(self, ids: Ints, width: int, part: str = "train") -> tuple[Array, Array]:
        """Return all rows of clients, X (K, width, d) and y (K, width), zero-padded."""
        drawn, y = self.source.draw(self.seed, ids, width, part)
        X = np.ones((len(ids), width, self.features), dtype=self.dtype)
        X[..., : self.source.features] = drawn
        y = y.astype(np.int64 if self.classes else self.dtype, copy=False)
        padding = np.arange(width) >= self.sizes(ids, part)[:, None]
        if padding.any():
            X[padding] = 0
            y[padding] = 0
        return X, y

    def take(self, ids: Ints, index: Ints) -> tuple[Array, Array]:
        """Return chosen training rows, X (K, B, d) and y (K, B), for index (K, B) < n_i."""
        X, y = self._last.get("train", ids, lambda: self.rows(ids, int(self.widths(ids).max())))
        place = np.arange(len(ids))[:, None] * X.shape[1] + index
        return X.reshape(-1, self.features).take(place, axis=0), y.reshape(-1).take(place)

    def total(self, part: str = "train") -> int:
        """Return the number n of rows over all clients."""
        return self._totals[part]

    @property
    def totals(self) -> tuple[int, float]:
        """The number n of training rows over all clients, which is their mass."""
        return self.total(), float(self.total())

    @cached_property
    def _totals(self) -> dict[str, int]:
        if isinstance(self.source.samples, int):
            one = np.zeros(1, dtype=np.int64)
            return {part: self.clients * int(self.sizes(one, part)[0]) for part in PARTS}
        sums = dict.fromkeys(PARTS, 0)
        for first in range(0, self.clients, _CHUNK):  # memory stays that of a chunk
            drawn = self._sizes(np.arange(first, min(first + _CHUNK, self.clients)))
            for part in PARTS:
                sums[part] += int(drawn[part].sum())
        return sums


def normals(key: Key, ids: Ints, count: int) -> npt.NDArray[np.float64]:
    """Draw standard normal numbers (K, count) from 32 random bits each.

    Half the cost of `Key.normals`, with a coarser grid (largest value 6.3).
    """
    return key.numbers(ids, count, _normal)


def _normal(words: Sequence[Words], which: slice, out: Floats) -> None:
    """Make standard normal numbers of one word each."""
    from scipy.special import ndtri  # imported late: rarely needed by client actors

    u = words[0].view(np.int64).astype(np.float64)
    u += 0.5
    u *= 2.0**-32
    ndtri(u, out=out)
