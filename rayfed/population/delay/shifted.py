"""Shifted exponential delay: a time that every step takes, and a random rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from rayfed.core.arrays import Floats
from rayfed.core.errors import ScenarioError
from rayfed.population.delay.base import DelayOfMean


@dataclass(frozen=True, kw_only=True)
class ShiftedExponential(DelayOfMean):
    """A least number of seconds per step, plus an exponential number.

    The usual model of stragglers in distributed computing (Lee, Lam, Pedarsani, Papailiopoulos,
    Ramchandran, "Speeding Up Distributed Machine Learning Using Codes", IEEE Transactions on
    Information Theory 64, 2018, https://arxiv.org/abs/1512.02673).

    Parameters
    ----------
    mean_s : float
        Mean seconds of one local step, the floor included.
    floor_s : float
        Least seconds of one local step, at most the mean.

    Raises
    ------
    ScenarioError
        If the floor is above the mean.

    Examples
    --------
    >>> ShiftedExponential(mean_s=3.0, floor_s=1.0).quantile(1 - np.exp([0.0, -2.0])).tolist()
    [1.0, 5.0]
    """

    name: ClassVar[str] = "shifted-exponential"

    floor_s: Annotated[float, Ge(0)] = 0.5

    def __post_init__(self) -> None:
        if self.floor_s > self.mean_s:
            text = f"found {self.floor_s:g} above the mean_s {self.mean_s:g}; give a lower floor"
            raise ScenarioError("floor_s", text)

    def quantile(self, u: Floats) -> Floats:
        """Return ``floor_s - (mean_s - floor_s) log(1 - u)``."""
        return np.asarray(self.floor_s - (self.mean_s - self.floor_s) * np.log1p(-u))
