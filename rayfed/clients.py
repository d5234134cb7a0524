"""The client side: what a client half sees, and the host that keeps clients and their state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from rayfed.datasets.shards import Shards
from rayfed.problems.base import Array, Batch, Problem
from rayfed.problems.objective import Objective
from rayfed.solvers import Local, Solver

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Clients:
    """K clients at once, as a client half sees them.

    All clients of one value share the local solver and the padded width of their rows.

    Attributes
    ----------
    ids, sizes, steps : (K,) array of int
        Client ids, training rows n_i, and the local steps allotted to each in this Ask.
    state : mapping of str to (K, ...) array
        The clients' own state as it was before this Ask.
    seed, round, ask : int
        Coordinates of keyed draws.
    solver : Solver
        The local solver of these clients.
    """

    problem: Problem
    objective: Objective
    shards: Shards
    solver: Solver
    ids: Ints
    sizes: Ints
    steps: Ints
    seed: int
    round: int
    ask: int
    p: int
    state: Mapping[str, Array] = field(default_factory=dict)

    def solve(self, x: Array, **terms: Any) -> Local:
        """Run the local solver from x, (p,) or (K, p); see `Solver.run` for further terms."""
        return self.solver.run(self, np.broadcast_to(x, (len(self.ids), self.p)), **terms)

    def value(self, x: Array) -> Array:
        """Return F_i(x_i) (K,) on all rows, for x (p,) or (K, p)."""
        return self.problem.value(np.atleast_2d(x), self.data)

    def gradient(self, x: Array) -> Array:
        """Return grad F_i(x_i) (K, p) on all rows."""
        return self.problem.gradient(np.atleast_2d(x), self.data)

    def hessian(self, x: Array) -> Array:
        """Return the Hessians of F_i at x_i (K, p, p)."""
        return self.problem.hessian(np.atleast_2d(x), self.data)

    def hvp(self, x: Array, v: Array) -> Array:
        """Return the Hessians of F_i at x_i times v_i (K, p)."""
        return self.problem.hvp(np.atleast_2d(x), np.atleast_2d(v), self.data)

    @cached_property
    def data(self) -> Batch:
        """All training rows, padded to the width of these clients."""
        width = int(self.shards.widths(self.ids[:1])[0])
        X, y = self.shards.rows(self.ids, width)
        real = np.arange(width) < self.sizes[:, None]
        return self._batch(X, y, real * self.objective.per_row(self.sizes)[:, None])

    def take(self, index: Ints, w: Array) -> Batch:
        """Return the rows index (K, B) as a batch.

        Parameters
        ----------
        index : (K, B) array of int
            Row numbers below n_i.
        w : (K, B) array of float
            Share of each row in the estimate of the client's mean loss: 1/B, or 0 for padding.
        """
        X, y = self.shards.take(self.ids, index)
        per_row = self.objective.per_row(self.sizes) * self.sizes
        return self._batch(X, y, w * per_row[:, None])

    def head(self, k: int) -> Clients:
        """Return the first k of these clients."""
        state = {name: rows[:k] for name, rows in self.state.items()}
        return replace(
            self, ids=self.ids[:k], sizes=self.sizes[:k], steps=self.steps[:k], state=state
        )

    def _batch(self, X: Array, y: Array, w: Array) -> Batch:
        ridge = self.objective.ridge(self.sizes, self.p)
        dtype = X.dtype
        return Batch(X, y, w.astype(dtype), None if ridge is None else ridge.astype(dtype))
