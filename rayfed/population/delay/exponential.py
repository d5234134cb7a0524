"""Exponential delay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rayfed.core.arrays import Floats
from rayfed.population.delay.base import DelayOfMean


@dataclass(frozen=True, kw_only=True)
class Exponential(DelayOfMean):
    """Exponentially distributed seconds per step.

    Parameters
    ----------
    mean_s : float
        Mean seconds of one local step.
    """

    name: ClassVar[str] = "exponential"

    def quantile(self, u: Floats) -> Floats:
        """Return ``-mean_s * log(1 - u)``."""
        return -self.mean_s * np.log1p(-u)
