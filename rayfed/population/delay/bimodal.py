"""Bimodal delay: a step is fast or slow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Interval

from rayfed.core.arrays import Floats
from rayfed.population.delay.base import DelayOfMean


@dataclass(frozen=True, kw_only=True)
class Bimodal(DelayOfMean):
    """Steps are fast, or with some probability slower by a factor.

    With ``correlation: 1`` a fixed random set of clients is slow; in between, a client stays slow
    for a while, as a phone does that is busy with something else.

    Parameters
    ----------
    mean_s : float
        Mean seconds of one local step, the slow ones included.
    slow : float
        Probability of being slow.
    factor : float
        How many times as long as the others slow steps take.

    Examples
    --------
    >>> Bimodal(mean_s=1.4, slow=0.1, factor=5.0).quantile(np.array([0.5, 0.95])).tolist()
    [1.0, 5.0]
    """

    name: ClassVar[str] = "bimodal"

    slow: Annotated[float, Interval(ge=0, le=1)] = 0.1
    factor: Annotated[float, Ge(1)] = 10.0

    def quantile(self, u: Floats) -> Floats:
        """Return ``factor`` times the fast seconds above ``1 - slow``, else the fast seconds."""
        fast = self.mean_s / (1.0 - self.slow + self.slow * self.factor)
        return np.where(u > 1.0 - self.slow, self.factor * fast, fast)
