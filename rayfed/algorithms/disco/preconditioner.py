"""The preconditioner of DiSCO's conjugate gradients, from one client's Hessian."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rayfed.core.arrays import Array


@dataclass(frozen=True)
class Preconditioner:
    """P = Q diag(l) Q' (p, p), positive definite; without eigenvalues it is the identity.

    Parameters
    ----------
    values : (p,) array, optional
        l, ascending.
    vectors : (p, p) array, optional
        Q, eigenvectors in columns.
    """

    values: Array | None = None
    vectors: Array | None = None

    @classmethod
    def of(cls, hessian: Array, ridge: float) -> Preconditioner:
        """Return H (p, p) + ridge I; where H is not convex its negative eigenvalues count as 0."""
        values, vectors = np.linalg.eigh(hessian)
        return cls(np.maximum(values, 0) + values.dtype.type(ridge), vectors)

    def solve(self, r: Array) -> Array:
        """Return P^-1 r (p,)."""
        if self.values is None or self.vectors is None:
            return r.copy()
        solved: Array = self.vectors @ ((self.vectors.T @ r) / self.values)
        return solved
