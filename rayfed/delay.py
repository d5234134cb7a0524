"""Delays: how many virtual seconds one local step takes, as a distribution with a known mean.

A delay never draws: it maps uniform numbers to seconds by its inverse CDF, so that the draw stays
keyed by client, round and Ask (see `rayfed.population`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt, Le

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Delay:
    """Base of all delays: the distribution of the seconds of one local step."""

    name: ClassVar[str]
    random: ClassVar[bool] = True
    """Whether `quantile` depends on u; where no client's delay does, nothing is drawn."""

    def quantile(self, u: Floats) -> Floats:
        """Return the seconds (K,) below which a step stays with probability u (K,) in (0, 1)."""
        raise NotImplementedError

    def mean(self) -> float:
        """Return the mean in seconds."""
        raise NotImplementedError


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


@dataclass(frozen=True, kw_only=True)
class Uniform(Delay):
    """Seconds per step uniform on ``mean_s * [1 - spread, 1 + spread]``.

    Parameters
    ----------
    mean_s : float
        Mean seconds of one local step.
    spread : float
        Half-width as a fraction of the mean, from 0 to 1.

    Examples
    --------
    >>> Uniform(mean_s=2.0, spread=0.5).quantile(np.array([0.25, 0.5]))
    array([1.5, 2. ])
    """

    name: ClassVar[str] = "uniform"

    mean_s: Annotated[float, Gt(0)] = 1.0
    spread: Annotated[float, Ge(0), Le(1)] = 0.5

    def quantile(self, u: Floats) -> Floats:
        """Return ``mean_s * (1 + spread * (2 u - 1))``."""
        return self.mean_s * (1.0 + self.spread * (2.0 * u - 1.0))

    def mean(self) -> float:
        """Return ``mean_s``."""
        return self.mean_s


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


@dataclass(frozen=True, kw_only=True)
class Lognormal(Delay):
    """Lognormally distributed seconds per step.

    Parameters
    ----------
    mean_s : float
        Mean seconds of one local step (of the delay itself, not of its logarithm).
    sigma : float
        Standard deviation of the logarithm of the seconds.
    """

    name: ClassVar[str] = "lognormal"

    mean_s: Annotated[float, Gt(0)] = 1.0
    sigma: Annotated[float, Ge(0)] = 0.5

    def quantile(self, u: Floats) -> Floats:
        """Return ``exp(mu + sigma Phi^-1(u))`` with ``mu = log(mean_s) - sigma^2 / 2``."""
        from scipy.special import ndtri  # here: a client actor that never asks stays small

        mu = np.log(self.mean_s) - self.sigma**2 / 2.0
        seconds: Floats = np.exp(mu + self.sigma * ndtri(u))
        return seconds

    def mean(self) -> float:
        """Return ``mean_s``."""
        return self.mean_s
