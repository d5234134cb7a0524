"""Lognormal delay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Interval

from rayfed.core.arrays import Floats
from rayfed.population.delay.base import DelayOfMean

MOST_SIGMA = 100.0
"""Of the logarithm: with more, seconds are 0 or infinite in floating point."""


@dataclass(frozen=True, kw_only=True)
class Lognormal(DelayOfMean):
    """Lognormally distributed seconds per step.

    Parameters
    ----------
    mean_s : float
        Mean seconds of one local step (of the delay itself, not of its logarithm).
    sigma : float
        Standard deviation of the logarithm of the seconds.
    """

    name: ClassVar[str] = "lognormal"

    sigma: Annotated[float, Interval(ge=0, le=MOST_SIGMA)] = 0.5

    def quantile(self, u: Floats) -> Floats:
        """Return ``exp(mu + sigma Phi^-1(u))`` with ``mu = log(mean_s) - sigma^2 / 2``."""
        from scipy.special import ndtri  # here: a client actor that never asks stays small

        mu = np.log(self.mean_s) - self.sigma**2 / 2.0
        seconds: Floats = np.exp(mu + self.sigma * ndtri(u))
        return seconds
