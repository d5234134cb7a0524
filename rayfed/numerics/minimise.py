"""Minimisation of smooth convex functions to machine precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from rayfed.core.arrays import Array, Floats

_STEPS, _GAIN = 20, 0.5  # Newton steps at most, as long as each halves the gradient norm
_CONVERGED = 1e-10  # of the gradient norm at the start, or of 1
_SMALL = 1e-12  # a gradient norm at which a search ends
_DAMPED_STEPS, _HALVINGS = 100, 30  # at most
_ENOUGH = 1e-4  # of the decrease that the slope promises, after Armijo
_REGULAR = 1e-3  # of the gradient norm, added to the Hessian

Oracle: TypeAlias = Callable[[Floats], tuple[float, Floats]]
"""Maps x (p,) to value and gradient (p,)."""


def minimise(
    function: Oracle,
    hessian: Callable[[Floats], Floats] | None,
    x0: Array,
    *,
    near: bool = False,
) -> tuple[float, Floats]:
    """Return the smallest value and the point of the smallest gradient (p,).

    Runs L-BFGS from x0 (p,), then Newton steps if a Hessian is given. If x0 is near the minimiser,
    Newton steps come first; if they do not end there, regularised ones with a line search from x0,
    and L-BFGS only if these do not either.
    """
    from scipy.optimize import minimize  # here: it takes half a second, and few runs need it

    x0 = x0.astype(np.float64)
    if near and hessian is not None:
        small = _CONVERGED * max(1.0, float(np.linalg.norm(function(x0)[1])))
        for start in (lambda: x0, lambda: _damped(function, hessian, x0)):
            best, x, gradient = _newton(function, hessian, start())
            if np.linalg.norm(gradient) <= small:
                return best, x
    result = minimize(
        function, x0, jac=True, method="L-BFGS-B",
        options={"maxiter": 5000, "maxfun": 10000, "ftol": 1e-16, "gtol": _SMALL},
    )  # fmt: skip
    best, x = float(result.fun), np.asarray(result.x)
    if hessian is None:
        return best, x
    lowest, x, _ = _newton(function, hessian, x)
    return min(best, lowest), x


def _newton(
    function: Oracle, hessian: Callable[[Floats], Floats], x: Floats
) -> tuple[float, Floats, Floats]:
    """Return the smallest value, the point and the gradient (p,) after Newton steps from x."""
    best, gradient = function(x)
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
    return float(best), x, gradient


def _damped(function: Oracle, hessian: Callable[[Floats], Floats], x: Floats) -> Floats:
    """Return the point (p,) where regularised Newton steps with a line search from x end.

    They go on where the Hessian is almost singular, as far out on separable classes (Li, Fukushima,
    Qi, Yamashita, "Regularized Newton methods for convex minimization problems with singular
    solutions", Computational Optimization and Applications 28, 2004). They end at a small gradient
    norm, or where no part of a step decreases the value.
    """
    value, gradient = function(x)
    for _ in range(_DAMPED_STEPS):
        norm = float(np.linalg.norm(gradient))
        if norm <= _SMALL:
            break
        H = hessian(x) + _REGULAR * norm * np.eye(x.size)
        step = np.linalg.lstsq(H, gradient)[0]
        for length in 0.5 ** np.arange(_HALVINGS):
            trial = x - length * step
            new_value, new_gradient = function(trial)
            if new_value <= value - _ENOUGH * length * float(gradient @ step) < value:
                break
        else:
            break
        x, value, gradient = trial, new_value, new_gradient
    return x
