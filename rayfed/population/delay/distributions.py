"""Delays as distributions with given means: inverse CDFs and shape parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Gt, Interval, Le

from rayfed.core.arrays import Floats
from rayfed.core.errors import ScenarioError
from rayfed.population.delay.base import Delay, DelayOfMean


@dataclass(frozen=True, kw_only=True)
class ConstantDelay(Delay):
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
class UniformDelay(DelayOfMean):
    """Seconds per step uniform on ``mean_s * [1 - spread, 1 + spread]``.

    Parameters
    ----------
    mean_s : float
        Mean seconds of one local step.
    spread : float
        Half-width as a fraction of the mean, from 0 to 1.

    Examples
    --------
    >>> import numpy as np
    >>> UniformDelay(mean_s=2.0, spread=0.5).quantile(np.array([0.25, 0.5]))
    array([1.5, 2. ])
    """

    name: ClassVar[str] = "uniform"

    spread: Annotated[float, Ge(0), Le(1)] = 0.5

    def quantile(self, u: Floats) -> Floats:
        """Return ``mean_s * (1 + spread * (2 u - 1))``."""
        return self.mean_s * (1.0 + self.spread * (2.0 * u - 1.0))


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


MOST_SIGMA = 30.0
"""Of the logarithm: with more, the shortest seconds are 0 in floating point."""


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
