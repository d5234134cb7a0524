"""Pareto delay: a few rounds take very long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Gt

from rayfed.core.arrays import Floats
from rayfed.population.delay.base import DelayOfMean


@dataclass(frozen=True, kw_only=True)
class Pareto(DelayOfMean):
    """Pareto-distributed seconds per step, with a heavy tail.

    Parameters
    ----------
    mean_s : float
        Mean seconds of one local step.
    shape : float
        Tail index a, above 1: P(T > t) falls as ``t**-a``. The variance is infinite up to 2.

    Examples
    --------
    >>> Pareto(mean_s=3.0, shape=3.0).quantile(np.array([0.0, 0.875])).tolist()
    [2.0, 4.0]
    """

    name: ClassVar[str] = "pareto"

    shape: Annotated[float, Gt(1)] = 2.5

    def quantile(self, u: Floats) -> Floats:
        """Return ``mean_s (1 - 1/a) (1 - u)**(-1/a)``."""
        shortest = self.mean_s * (1.0 - 1.0 / self.shape)
        return np.asarray(shortest * np.exp(-np.log1p(-u) / self.shape))
