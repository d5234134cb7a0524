"""Newton systems of K clients at once: ``(H_i + mu I) d_i = r_i``.

Nothing of a client depends on its neighbours in the stack: each matrix is factored alone, and
conjugate gradients end for each client by its own residual.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.linalg import get_lapack_funcs

from rayfed.core.arrays import Array

_ROUNDING_ERRORS = 64.0


def tolerance(dtype: npt.DTypeLike) -> float:
    """Return the residual, relative to the right-hand side, at which conjugate gradients end."""
    return _ROUNDING_ERRORS * float(np.finfo(dtype).eps)


class Systems(Protocol):
    """The matrices ``M_i = H_i + mu I`` of K clients.

    Attributes
    ----------
    indefinite : (K,) array of bool
        Whose M_i was found not to be positive definite, so that another one took its place.
    """

    indefinite: Array

    def solve(self, r: Array) -> Array:
        """Return ``M_i^-1 r_i`` for r (K, p)."""
        ...

    def times(self, v: Array) -> Array:
        """Return ``M_i v_i`` for v (K, p)."""
        ...


class Cholesky:
    """Systems with matrices, factored one by one.

    A matrix that is not positive definite is replaced by ``max(H_i, 0) + mu I``, where max is over
    eigenvalues: its step still descends, and where H_i is only flat nothing changes.

    Parameters
    ----------
    hessians : (K, p, p) array
        Taken over, and changed.
    mu : float
        What is added to their diagonal, > 0.
    """

    def __init__(self, hessians: Array, mu: float) -> None:
        diagonal = np.einsum("kii->ki", hessians)  # a view
        diagonal += mu
        self.matrix, self.mu = hessians, mu
        self.indefinite = np.zeros(len(hessians), dtype=np.bool_)
        lapack: Any = get_lapack_funcs(("potrf", "potrs"), (hessians,))
        self.potrf, self.potrs = lapack
        self.factors = [self._factor(k) for k in range(len(hessians))]

    def solve(self, r: Array) -> Array:
        """Return ``M_i^-1 r_i`` for r (K, p); not a number where M_i is not finite."""
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
    """Return a symmetric matrix (p, p) with all eigenvalues raised to mu, beyond rounding."""
    values, vectors = np.linalg.eigh(matrix)
    noise = 16 * len(values) * np.finfo(values.dtype).eps * np.abs(values).max()
    raised: Array = (vectors * np.maximum(values, max(mu, noise))) @ vectors.T
    return raised


class ConjugateGradients:
    """Systems known by their products alone, solved by conjugate gradients.

    Where a direction of no positive curvature turns up, the solution so far is kept (the
    right-hand side itself if it is the first direction).

    Parameters
    ----------
    product : callable
        From v (K, p) to ``H_i v_i`` (K, p).
    mu : float
        What is added to the Hessians, > 0.
    steps : int
        Products at most.

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
        """Return ``M_i^-1 r_i`` for r (K, p), each to rounding or as far as the steps go."""
        x, left, along = np.zeros_like(r), r.copy(), r.copy()
        square = np.vecdot(left, left)
        whole = square
        enough = r.dtype.type(tolerance(r.dtype)) ** 2 * whole
        square = square.copy()
        self.indefinite = np.zeros(len(r), dtype=np.bool_)
        going = square > enough
        for step in range(self.steps):
            on = np.flatnonzero(going)
            if not len(on):
                break
            image = self.times(along)
            bend = np.vecdot(along, image)
            flat = on[bend[on] <= 0]
            self.indefinite[flat] = True
            if step == 0:
                x[flat] = r[flat]
                left[flat] -= image[flat]
            going[flat] = False
            on = np.flatnonzero(going)
            length = (square[on] / bend[on])[:, None]
            x[on] += length * along[on]
            left[on] -= length * image[on]
            fresh = np.vecdot(left, left)
            along[on] = left[on] + (fresh[on] / square[on])[:, None] * along[on]
            square[on] = fresh[on]
            going[on] = square[on] > enough[on]
        self.residual = np.sqrt(np.vecdot(left, left) / np.where(whole > 0, whole, 1))
        return x
