"""The mean, with which rules are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rayfed.channel.aggregators.base import Aggregator
from rayfed.core.arrays import Array, Floats
from rayfed.messages import State


@dataclass(frozen=True, kw_only=True)
class Mean(Aggregator):
    """The plain mean of the vectors that are finite.

    Examples
    --------
    >>> import numpy as np
    >>> Mean().aggregate(np.array([[0.0], [1.0], [8.0]]), np.ones(3), {})[0].tolist()
    [3.0]
    """

    name: ClassVar[str] = "mean"

    def aggregate(self, vectors: Array, weights: Floats, state: State) -> tuple[Array, State]:
        """Return the mean (p,) of vectors (K, p)."""
        mean: Array = vectors.mean(axis=0)
        return mean, state
