"""The geometric median, by the smoothed algorithm of Weiszfeld.

Pillutla, Kakade, Harchaoui, "Robust Aggregation for Federated Learning", IEEE TSP 2022,
https://arxiv.org/abs/1912.13445, algorithm 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Gt

from rayfed.channel.aggregators.base import Aggregator
from rayfed.core.arrays import Array, Floats
from rayfed.messages import State


@dataclass(frozen=True, kw_only=True)
class GeometricMedian(Aggregator):
    """Near the point with the least sum of distances to the vectors.

    From z = 0, z <- sum_i b_i v_i / sum_i b_i with b_i = 1 / max(smoothing, ||v_i - z||), some
    steps.

    Parameters
    ----------
    steps : int
        Number of steps T.
    smoothing : float
        Distances nu below this one count as it.

    Notes
    -----
    Deviations from the paper: all vectors have the same weight, and the steps start at 0.

    Examples
    --------
    >>> rule = GeometricMedian(steps=50)
    >>> rule.aggregate(np.array([[0.0], [1.0], [9.0]]), np.ones(3), {})[0].round(6).tolist()
    [1.0]
    """

    name: ClassVar[str] = "geometric-median"

    steps: Annotated[int, Ge(1)] = 3
    smoothing: Annotated[float, Gt(0)] = 0.1

    def aggregate(self, vectors: Array, weights: Floats, state: State) -> tuple[Array, State]:
        """Return the last z (p,) for vectors (K, p)."""
        z: Array = np.zeros_like(vectors[0])
        for _ in range(self.steps):
            distance = np.linalg.norm(vectors - z, axis=1)
            b = 1 / np.maximum(distance, self.smoothing)
            z = (b / b.sum()) @ vectors
        return z.astype(vectors.dtype, copy=False), state
