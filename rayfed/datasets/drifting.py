"""Shards with rows that change from round to round."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from rayfed.core.arrays import Array, Bools, Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.core.shares import rounded
from rayfed.datasets.drift import Drift
from rayfed.datasets.shards import OfLastClients, Shards

_PARTS = {"train": 0, "test": 1, "validation": 2}


@dataclass(frozen=True)
class DriftingShards(Shards):
    """The rows of other shards as a drift has changed them at one level.

    `at` gives the shards of another round. The rows of a client are a function of the seed, the
    client and the level alone.

    Parameters
    ----------
    base : Shards
        The rows before any change.
    drift : Drift
        How they change.
    seed : int
        Seed of the drift.
    affected : (M,) array of int or float
        Ids of the clients that drift, ascending; or the share of them.
    level : float
        From 0 to 1.
    clients, features, classes, shape, dtype
        As in `Shards`; those of the base.
    """

    base: Shards
    drift: Drift
    seed: int
    affected: Ints | float
    level: float
    clients: int
    features: int
    classes: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    held: ClassVar[bool] = False
    _last: OfLastClients = field(default_factory=OfLastClients, repr=False, compare=False)
    """Draws for the rows of the last clients, and which of them drift."""
    _totals: dict[float, tuple[int, float]] = field(default_factory=dict, repr=False, compare=False)
    """What `totals` has found, by level."""

    @classmethod
    def of(cls, base: Shards, drift: Drift, seed: int, affected: Ints | float) -> DriftingShards:
        """Return the shards before the first round.

        Raises
        ------
        ScenarioError
            If the rows cannot drift so, or a client does not exist; the place is that of a setting
            of the drift.
        """
        drift.check(base)
        if isinstance(affected, np.ndarray) and affected.max(initial=0) >= base.clients:
            text = f"found id {affected.max()}; ids go from 0 to {base.clients - 1}"
            raise ScenarioError("clients", text)
        seed = seed if drift.seed is None else drift.seed
        facts = (base.clients, base.features, base.classes, base.shape, base.dtype)
        return cls(base, drift, seed, affected, drift.level(0), *facts)

    def at(self, round: int) -> DriftingShards:
        """Return the shards of a round; round 0 is before the first."""
        level = self.drift.level(round)
        return self if level == self.level else replace(self, level=level)

    @property
    def moves_sizes(self) -> bool:
        """Whether the sizes of clients change over rounds."""
        return self.drift.moves_sizes

    @property
    def version(self) -> Hashable:
        """Identity of these rows among shards and levels."""
        return self.base.version, self.level

    def drifts(self, ids: Ints) -> Bools:
        """Return which clients (K,) drift."""
        return self._last.get("drifts", ids, lambda: (self._drift(ids),))[0]

    def _drift(self, ids: Ints) -> Bools:
        if isinstance(self.affected, np.ndarray):
            return np.isin(ids, self.affected)
        place = Key(self.seed, "drift").permutation(self.clients)(ids)
        return np.asarray(place < rounded(self.affected, self.clients))

    def sizes(self, ids: Ints, part: str = "train") -> Ints:
        """Return the number of rows n_i of each client (K,) at this level."""
        sizes = self.base.sizes(ids, part)
        if not self.moves_sizes:
            return sizes
        return np.where(self.drifts(ids), self.drift.sizes(sizes, self.level), sizes)

    def mass(self, ids: Ints) -> npt.NDArray[np.float64]:
        """Return the mass of each client (K,); it grows and shrinks as its training rows do."""
        mass = self.base.mass(ids)
        if not self.moves_sizes:
            return mass
        undrifted, now = self.base.sizes(ids), self.sizes(ids)
        return np.where(mass == undrifted, now, mass * now / undrifted)

    def widths(self, ids: Ints, part: str = "train") -> Ints:
        """Return the padded widths (K,), the same at all levels."""
        return self.base.widths(ids, part)

    def rows(self, ids: Ints, width: int, part: str = "train") -> tuple[Array, Array]:
        """Return all rows of clients, X (K, width, d) and y (K, width), zero-padded."""
        moved = self.drifts(ids)
        if not self.moves_sizes:
            X, y = self.base.rows(ids, width, part)
            real = np.arange(width) < self.sizes(ids, part)[:, None]
            return self._changed(ids, moved, X, y, np.arange(width)[None], part, real)
        undrifted = max(width, int(self.base.sizes(ids, part).max(initial=0)))
        X, y = self.base.rows(ids, undrifted, part)
        order = self._order(ids, moved, undrifted, part)[:, :width]
        X, y = np.take_along_axis(X, order[..., None], axis=1), np.take_along_axis(y, order, axis=1)
        padding = np.arange(width) >= self.sizes(ids, part)[:, None]
        X[padding], y[padding] = 0, 0
        return X, y

    def take(self, ids: Ints, index: Ints) -> tuple[Array, Array]:
        """Return chosen training rows, X (K, B, d) and y (K, B), for index (K, B) < n_i."""
        moved = self.drifts(ids)
        if not self.moves_sizes:
            X, y = self.base.take(ids, index)
            return self._changed(ids, moved, X, y, index, "train", np.ones(y.shape, np.bool_))
        undrifted = int(self.base.sizes(ids).max())
        order = self._order(ids, moved, undrifted, "train")
        return self.base.take(ids, np.take_along_axis(order, index, axis=1))

    def total(self, part: str = "train") -> int:
        """Return the number n of rows over all clients at this level."""
        if not self.moves_sizes:
            return self.base.total(part)
        return int(self.sizes(np.arange(self.clients), part).sum())

    @property
    def totals(self) -> tuple[int, float]:
        """The number n of training rows over all clients, and their total mass, at this level."""
        level = self.level if self.moves_sizes else 0.0
        if level not in self._totals:
            self._totals[level] = super().totals
        return self._totals[level]

    def _changed(
        self, ids: Ints, moved: Bools, X: Array, y: Array, index: Ints, part: str, real: Bools
    ) -> tuple[Array, Array]:
        """Return rows with those of drifting clients changed; rows that are not real stay zero."""
        if not self.level or not moved.any():
            return X, y
        u = None
        if self.drift.by_row and self.level < 1:
            width = int(self.base.sizes(ids, part).max())
            index = np.minimum(np.broadcast_to(index, y.shape), width - 1)
            u = np.take_along_axis(self._uniforms(ids, width, part), index, axis=1)[moved]
        changed = self.drift.change(X[moved], y[moved], self.level, self.shape, u)
        X, y = X.copy(), y.copy()
        X[moved] = np.where(real[moved][..., None], changed[0], 0)
        y[moved] = np.where(real[moved], changed[1], 0)
        return X, y

    def _order(self, ids: Ints, moved: Bools, width: int, part: str) -> Ints:
        """Return the numbers (K, width) of the rows of clients in the order of their arrival."""
        place = np.broadcast_to(np.arange(width), (len(ids), width))
        u = np.where(moved[:, None], self._uniforms(ids, width, part), place)
        u[place >= self.base.sizes(ids, part)[:, None]] = np.inf
        return np.argsort(u, axis=1, kind="stable")

    def _uniforms(self, ids: Ints, width: int, part: str) -> Floats:
        """Return a number from (0, 1) of each row (K, width), which no other row has a part in."""
        key = Key(self.seed, "drift/rows")
        u, *_ = self._last.get(
            part, ids, lambda: (key.uniforms(ids, width, round=_PARTS[part]),), width
        )
        return u[:, :width]
