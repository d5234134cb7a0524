"""The coordinate-wise median.

Yin, Chen, Kannan, Bartlett, "Byzantine-Robust Distributed Learning: Towards Optimal Statistical
Rates", ICML 2018, https://arxiv.org/abs/1803.01498, definition 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rayfed.channel.aggregators.base import Aggregator
from rayfed.core.arrays import Array, Floats
from rayfed.messages import State


@dataclass(frozen=True, kw_only=True)
class Median(Aggregator):
    """The median of each coordinate; of an even number of vectors the mean of the middle two.

    Notes
    -----
    Deviations from the paper: none.

    Examples
    --------
    >>> Median().aggregate(np.array([[0.0], [1.0], [8.0]]), np.ones(3), {})[0].tolist()
    [1.0]
    """

    name: ClassVar[str] = "median"

    def aggregate(self, vectors: Array, weights: Floats, state: State) -> tuple[Array, State]:
        """Return the medians (p,) of vectors (K, p)."""
        return np.median(vectors, axis=0), state
