"""Exponential delay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Gt

from rayfed.core.arrays import Floats
from rayfed.population.delay.base import Delay


@dataclass(frozen=True, kw_only=True)
class Exponential(Delay):
    """Exponentially distributed seconds per step.

    Parameters
    ----------
    mean_s : float
        Mean seconds of one local step.
    """

    name: ClassVar[str] = "exponential"

    mean_s: Annotated[float, Gt(0)] = 1.0

    def quantile(self, u: Floats) -> Floats:
        """Return ``-mean_s * log(1 - u)``."""
        return -self.mean_s * np.log1p(-u)

    def mean(self) -> float:
        """Return ``mean_s``."""
        return self.mean_s
