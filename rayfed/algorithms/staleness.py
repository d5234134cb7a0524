"""Staleness functions: weights of replies that started from an old version of the model.

Xie, Koyejo, Gupta, "Asynchronous Federated Optimization", 2019, https://arxiv.org/abs/1903.03934,
section 5.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Gt

from rayfed.core.arrays import Floats, Ints


@dataclass(frozen=True, kw_only=True)
class Staleness:
    """Base of all staleness functions: 1 for a fresh reply, and never larger for an older one.

    The staleness of a fresh reply is 0, as in FedBuff's paper; FedAsync's counts it as 1.
    """

    name: ClassVar[str]

    def factor(self, staleness: Ints) -> Floats:
        """Return the factors s (K,), above 0 and at most 1, for replies so many updates old."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class ConstantStaleness(Staleness):
    """Every reply counts alike.

    Examples
    --------
    >>> ConstantStaleness().factor(np.array([0, 3])).tolist()
    [1.0, 1.0]
    """

    name: ClassVar[str] = "constant"

    def factor(self, staleness: Ints) -> Floats:
        """Return ones (K,)."""
        return np.ones(len(staleness))


@dataclass(frozen=True, kw_only=True)
class Polynomial(Staleness):
    """``(1 + staleness)^-power``.

    Parameters
    ----------
    power : float
        How fast the factor falls; 0.5 in FedBuff's paper and in FedAsync's experiments.

    Examples
    --------
    >>> Polynomial().factor(np.array([0, 3])).tolist()
    [1.0, 0.5]
    """

    name: ClassVar[str] = "polynomial"

    power: Annotated[float, Ge(0)] = 0.5

    def factor(self, staleness: Ints) -> Floats:
        """Return ``(1 + staleness)^-power`` (K,)."""
        return np.asarray((1.0 + staleness) ** -self.power)


@dataclass(frozen=True, kw_only=True)
class Hinge(Staleness):
    """1 up to a staleness, then ``1 / (slope (staleness - after) + 1)``.

    The summand 1 is in the paper's section 5.2 and in Plato's implementation; FLGo's lacks it.

    Parameters
    ----------
    slope : float
        How fast the factor falls.
    after : int
        Largest staleness that costs nothing.

    Examples
    --------
    >>> Hinge(slope=1.0, after=2).factor(np.array([0, 2, 5])).tolist()
    [1.0, 1.0, 0.25]
    """

    name: ClassVar[str] = "hinge"

    slope: Annotated[float, Gt(0)] = 10.0
    after: Annotated[int, Ge(0)] = 6

    def factor(self, staleness: Ints) -> Floats:
        """Return 1 or ``1 / (slope (staleness - after) + 1)`` (K,)."""
        return np.asarray(1.0 / (self.slope * np.maximum(staleness - self.after, 0) + 1.0))
