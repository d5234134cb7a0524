"""Weibull delay."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Interval

from rayfed.core.arrays import Floats
from rayfed.population.delay.base import DelayOfMean


@dataclass(frozen=True, kw_only=True)
class Weibull(DelayOfMean):
    """Weibull-distributed seconds per step.

    Parameters
    ----------
    mean_s : float
        Mean seconds of one local step.
    shape : float
        Shape k, from 0.1 to 1,000: a heavy tail below 1, `exponential` with 1, narrow far above.

    Examples
    --------
    With shape 1/2 the scale is half the mean, and the seconds are squares of exponential ones.

    >>> Weibull(mean_s=2.0, shape=0.5).quantile(1 - np.exp([-1.0, -3.0])).round(12).tolist()
    [1.0, 9.0]
    """

    name: ClassVar[str] = "weibull"

    shape: Annotated[float, Interval(ge=0.1, le=1000)] = 1.5

    def quantile(self, u: Floats) -> Floats:
        """Return ``mean_s / Gamma(1 + 1/k) * (-log(1 - u))**(1/k)``."""
        scale = self.mean_s / math.gamma(1.0 + 1.0 / self.shape)
        return np.asarray(scale * (-np.log1p(-u)) ** (1.0 / self.shape))
