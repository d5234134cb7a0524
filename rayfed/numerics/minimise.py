"""The least value of a smooth convex function, to rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from scipy.optimize import minimize

from rayfed.core.arrays import Array, Floats

_STEPS, _GAIN = 20, 0.5  # Newton steps at most, while each divides the gradient by 2

Oracle: TypeAlias = Callable[[Floats], tuple[float, Floats]]
"""From x (p,) to value and gradient (p,)."""


def minimise(
    function: Oracle, hessian: Callable[[Floats], Floats] | None, x0: Array
) -> tuple[float, Floats]:
    """Return the least value found, and where the gradient was smallest (p,).

    L-BFGS from x0 (p,), then Newton steps, where there is a Hessian.
    """
    found = minimize(
        function, x0.astype(np.float64), jac=True, method="L-BFGS-B",
        options={"maxiter": 5000, "maxfun": 10000, "ftol": 1e-16, "gtol": 1e-12},
    )  # fmt: skip
    best, x = float(found.fun), np.asarray(found.x)
    if hessian is None:
        return best, x
    slope = function(x)[1]
    for _ in range(_STEPS):
        # the step of least norm: none at all along directions in which F does not bend
        trial = x - np.linalg.lstsq(hessian(x), slope)[0]
        value, ahead = function(trial)
        best, left = min(best, value), np.linalg.norm(ahead)
        before = np.linalg.norm(slope)
        if left < before:
            x, slope = trial, ahead
        if not left < _GAIN * before:  # what is left is rounding
            break
    return best, x
