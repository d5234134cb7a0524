"""Gamma delay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Interval

from rayfed.core.arrays import Floats
from rayfed.population.delay.base import DelayOfMean


@dataclass(frozen=True, kw_only=True)
class Gamma(DelayOfMean):
    """Gamma-distributed seconds per step.

    Parameters
    ----------
    mean_s : float
        Mean seconds of one local step.
    shape : float
        Shape k, from 0.01 to 10,000; the standard deviation is ``mean_s / sqrt(k)``. It is
        `exponential` with 1, and the sum of k exponential phases where it is whole.
    """

    name: ClassVar[str] = "gamma"

    shape: Annotated[float, Interval(ge=0.01, le=1e4)] = 2.0

    def quantile(self, u: Floats) -> Floats:
        """Return ``mean_s / k`` times the inverse of the regularised incomplete gamma function."""
        from scipy.special import gammaincinv  # here: a client actor that never asks stays small

        return np.asarray(self.mean_s / self.shape * gammaincinv(self.shape, u), dtype=np.float64)
