"""Constant delay: every step takes the same time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from rayfed.core.arrays import Floats
from rayfed.population.delay.base import Delay


@dataclass(frozen=True, kw_only=True)
class Constant(Delay):
    """Every step takes the same time.

    Parameters
    ----------
    mean_s : float
        Seconds of one local step; 0 makes computing free.
    """

    name: ClassVar[str] = "constant"
    random: ClassVar[bool] = False

    mean_s: Annotated[float, Ge(0)] = 1.0

    def quantile(self, u: Floats) -> Floats:
        """Return ``mean_s`` for every u."""
        return np.full(np.shape(u), self.mean_s)

    def mean(self) -> float:
        """Return ``mean_s``."""
        return self.mean_s
