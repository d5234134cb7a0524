"""Uniform delay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from rayfed.core.arrays import Floats
from rayfed.population.delay.base import DelayOfMean


@dataclass(frozen=True, kw_only=True)
class Uniform(DelayOfMean):
    """Seconds per step uniform on ``mean_s * [1 - spread, 1 + spread]``.

    Parameters
    ----------
    mean_s : float
        Mean seconds of one local step.
    spread : float
        Half-width as a fraction of the mean, from 0 to 1.

    Examples
    --------
    >>> import numpy as np
    >>> Uniform(mean_s=2.0, spread=0.5).quantile(np.array([0.25, 0.5]))
    array([1.5, 2. ])
    """

    name: ClassVar[str] = "uniform"

    spread: Annotated[float, Ge(0), Le(1)] = 0.5

    def quantile(self, u: Floats) -> Floats:
        """Return ``mean_s * (1 + spread * (2 u - 1))``."""
        return self.mean_s * (1.0 + self.spread * (2.0 * u - 1.0))
