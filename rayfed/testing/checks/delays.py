"""Checks of delays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rayfed.population.delay.base import Delay
from rayfed.testing.checks.common import require, require_equal

_TOLERANCE = 1e-6
U = np.linspace(1e-9, 1 - 1e-9, 1001)


def check_pure(delay: Delay, u: Sequence[float] | Any = U[::50]) -> None:
    """Check that a client's seconds do not depend on neighbours or on earlier questions."""
    asked = np.asarray(u, dtype=np.float64)
    asked.flags.writeable = False
    together = delay.quantile(asked)
    require_equal(delay.quantile(asked[::-1])[::-1], together, f"{delay}: the order matters")
    alone = np.array([delay.quantile(asked[k : k + 1])[0] for k in range(len(asked))])
    require_equal(alone, together, f"{delay}: a client alone waits differently")


def check_mean(delay: Delay) -> None:
    """Check that the stated mean is the integral of the quantile over (0, 1)."""
    integral = _integral(delay)
    require(
        abs(integral - delay.mean()) <= _TOLERANCE * abs(integral),
        f"{delay} states the mean {delay.mean():g} s, but its quantile integrates to "
        f"{integral:g} s",
    )


def check_quantile(delay: Delay) -> None:
    """Check that the quantile rises, is finite and never negative."""
    seconds = delay.quantile(U)
    require(seconds.shape == U.shape, f"{delay}: quantile returns {seconds.shape} for {U.shape}")
    require(np.isfinite(seconds), f"{delay}: a quantile is not finite")
    require(seconds >= 0, f"{delay}: a quantile is below 0 s")
    require(np.diff(seconds) >= 0, f"{delay}: the quantile falls somewhere")
    require(delay.random or np.ptp(seconds) == 0, f"{delay} is random but declares random = False")


def _integral(delay: Delay) -> float:
    from scipy.integrate import quad

    value, _ = quad(lambda u: float(delay.quantile(np.array([u]))[0]), 0, 1, limit=200)
    return float(value)
