"""Newton systems of K clients, solved together: ``(H_i + mu I) d_i = r_i``.

The result of a client does not depend on the others in the stack: each matrix is factored
separately, and conjugate gradients stop for each client by its own residual.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from rayfed.core.arrays import Array

_ROUNDING_ERRORS = 64.0


def tolerance(dtype: npt.DTypeLike) -> float:
    """Return the residual, relative to the right-hand side, at which conjugate gradients stop."""
    return _ROUNDING_ERRORS * float(np.finfo(dtype).eps)


class Systems(Protocol):
    """The matrices ``M_i = H_i + mu I`` of K clients.

    Attributes
    ----------
    indefinite : (K,) array of bool
        Clients whose M_i was not positive definite, so that the solution was modified.
    """

    indefinite: Array

    def solve(self, r: Array) -> Array:
        """Return ``M_i^-1 r_i`` for r (K, p)."""
        ...

    def times(self, v: Array) -> Array:
        """Return ``M_i v_i`` for v (K, p)."""
        ...


class Cholesky:
    """Systems given by their matrices, solved by Cholesky factorisation.

    A matrix that is not positive definite is replaced by ``max(H_i, 0) + mu I``, where the maximum
    applies to the eigenvalues, so that the step is a descent direction. A positive semi-definite
    H_i is not changed.

    Parameters
    ----------
    hessians : (K, p, p) array
        Hessians H_i; overwritten.
    mu : float
        Added to their diagonal, > 0.
    """

    def __init__(self, hessians: Array, mu: float) -> None:
        diagonal = np.einsum("kii->ki", hessians)  # a view
        diagonal += mu
        self.matrix, self.mu = hessians, mu
        self.indefinite = np.zeros(len(hessians), dtype=np.bool_)
        from scipy.linalg import get_lapack_funcs  # here: it takes a quarter of a second

        lapack: Any = get_lapack_funcs(("potrf", "potrs"), (hessians,))
        self.potrf, self.potrs = lapack
        self.factors = [self._factor(k) for k in range(len(hessians))]

    def solve(self, r: Array) -> Array:
        """Return ``M_i^-1 r_i`` for r (K, p); NaN where M_i is not finite."""
        out = np.full_like(r, np.nan)
        for k, factor in enumerate(self.factors):
            if factor is not None:
                out[k] = self.potrs(factor, r[k], lower=True)[0]
        return out

    def times(self, v: Array) -> Array:
        """Return ``M_i v_i`` for v (K, p)."""
        product: Array = (self.matrix @ v[:, :, None])[:, :, 0]
        return product

    def _factor(self, k: int) -> Array | None:
        factor, failed = self.potrf(self.matrix[k], lower=True)
        if failed and np.isfinite(self.matrix[k]).all():
            self.indefinite[k] = True
            self.matrix[k] = _raised(self.matrix[k], self.mu)
            factor, failed = self.potrf(self.matrix[k], lower=True)
        return None if failed else factor


def _raised(matrix: Array, mu: float) -> Array:
    """Return a symmetric matrix (p, p) with eigenvalues of at least mu, up to rounding."""
    values, vectors = np.linalg.eigh(matrix)
    noise = 16 * len(values) * np.finfo(values.dtype).eps * np.abs(values).max()
    raised: Array = (vectors * np.maximum(values, max(mu, noise))) @ vectors.T
    return raised


class ConjugateGradients:
    """Systems given by Hessian-vector products, solved by conjugate gradients.

    At a direction without positive curvature the current iterate is returned (the right-hand side
    itself if it is the first direction).

    Parameters
    ----------
    product : callable
        Maps v (K, p) to ``H_i v_i`` (K, p).
    mu : float
        Added to the diagonals of the Hessians, > 0.
    steps : int
        Largest number of products.

    Attributes
    ----------
    residual : (K,) array
        ``||r_i - M_i d_i|| / ||r_i||`` of the last solutions as the recursion has it, 0 where r_i
        is 0: above `tolerance` where the steps ran out or a direction did not curve up.
    """

    def __init__(self, product: Callable[[Array], Array], mu: float, steps: int) -> None:
        self.product, self.mu, self.steps = product, mu, steps
        self.indefinite = np.empty(0, dtype=np.bool_)
        self.residual = np.empty(0)

    def times(self, v: Array) -> Array:
        """Return ``M_i v_i`` for v (K, p)."""
        return self.product(v) + self.mu * v

    def solve(self, r: Array) -> Array:
        """Return ``M_i^-1 r_i`` for r (K, p), to rounding or after the largest number of steps."""
        x, residual, direction = np.zeros_like(r), r.copy(), r.copy()
        initial = np.vecdot(r, r)
        square = initial.copy()
        target = r.dtype.type(tolerance(r.dtype)) ** 2 * initial
        self.indefinite = np.zeros(len(r), dtype=np.bool_)
        running = square > target
        for step in range(self.steps):
            active = np.flatnonzero(running)
            if not len(active):
                break
            product = self.times(direction)
            curvature = np.vecdot(direction, product)
            indefinite = active[curvature[active] <= 0]
            self.indefinite[indefinite] = True
            if step == 0:
                x[indefinite] = r[indefinite]
                residual[indefinite] -= product[indefinite]
            running[indefinite] = False
            active = np.flatnonzero(running)
            length = (square[active] / curvature[active])[:, None]
            x[active] += length * direction[active]
            residual[active] -= length * product[active]
            new_square = np.vecdot(residual, residual)
            ratio = (new_square[active] / square[active])[:, None]
            direction[active] = residual[active] + ratio * direction[active]
            square[active] = new_square[active]
            running[active] = square[active] > target[active]
        self.residual = np.sqrt(np.vecdot(residual, residual) / np.where(initial > 0, initial, 1))
        return x
