"""The coordinate-wise trimmed mean.

Yin, Chen, Kannan, Bartlett, "Byzantine-Robust Distributed Learning: Towards Optimal Statistical
Rates", ICML 2018, https://arxiv.org/abs/1803.01498, definition 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from rayfed.channel.aggregators.base import Aggregator, at_most
from rayfed.core.arrays import Array, Floats
from rayfed.messages import State


@dataclass(frozen=True, kw_only=True)
class TrimmedMean(Aggregator):
    """The mean of each coordinate without its f smallest and its f largest numbers.

    Parameters
    ----------
    f : int
        Faulty clients that are feared. Of so few vectors that 2 f are all, fewer are trimmed.

    Notes
    -----
    Deviations from the paper: f is a number, there a share of the clients.

    Examples
    --------
    >>> TrimmedMean(f=1).aggregate(np.array([[0.0], [1.0], [3.0], [9.0]]), np.ones(4), {})[0]
    array([2.])
    """

    name: ClassVar[str] = "trimmed-mean"

    f: Annotated[int, Ge(0)]

    def least(self) -> int:
        """Return 2 f + 1."""
        return 2 * self.f + 1

    def aggregate(self, vectors: Array, weights: Floats, state: State) -> tuple[Array, State]:
        """Return the trimmed means (p,) of vectors (K, p)."""
        f = at_most(self.f, len(vectors))
        kept = np.sort(vectors, axis=0)[f : len(vectors) - f]
        mean: Array = kept.mean(axis=0)
        return mean, state
