"""Minimisation of smooth convex functions to machine precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from scipy.optimize import minimize

from rayfed.core.arrays import Array, Floats

_STEPS, _GAIN = 20, 0.5  # Newton steps at most, as long as each halves the gradient norm

Oracle: TypeAlias = Callable[[Floats], tuple[float, Floats]]
"""Maps x (p,) to value and gradient (p,)."""


def minimise(
    function: Oracle, hessian: Callable[[Floats], Floats] | None, x0: Array
) -> tuple[float, Floats]:
    """Return the smallest value and the point of the smallest gradient (p,).

    Runs L-BFGS from x0 (p,), then Newton steps if a Hessian is given.
    """
    result = minimize(
        function, x0.astype(np.float64), jac=True, method="L-BFGS-B",
        options={"maxiter": 5000, "maxfun": 10000, "ftol": 1e-16, "gtol": 1e-12},
    )  # fmt: skip
    best, x = float(result.fun), np.asarray(result.x)
    if hessian is None:
        return best, x
    gradient = function(x)[1]
    for _ in range(_STEPS):
        # the least-norm step: zero along directions of zero curvature
        trial = x - np.linalg.lstsq(hessian(x), gradient)[0]
        value, new_gradient = function(trial)
        best, after = min(best, value), np.linalg.norm(new_gradient)
        before = np.linalg.norm(gradient)
        if after < before:
            x, gradient = trial, new_gradient
        if not after < _GAIN * before:  # the rest is rounding error
            break
    return best, x
