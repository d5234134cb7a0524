"""Nearest-neighbour mixing (NNM): every vector becomes the mean of its nearest ones.

Allouah, Farhadkhani, Guerraoui, Gupta, Pinot, Stephan, "Fixing by Mixing: A Recipe for Optimal
Byzantine ML under Heterogeneity", AISTATS 2023, https://arxiv.org/abs/2302.01772, algorithm 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from rayfed.channel.mixers.base import Mixer
from rayfed.channel.mixers.distances import squared_distances
from rayfed.core.arrays import Array


@dataclass(frozen=True, kw_only=True)
class NearestNeighbours(Mixer):
    """The mean of the K - f vectors that are nearest to each, itself among them.

    Parameters
    ----------
    f : int
        Faulty clients that are feared.

    Notes
    -----
    Deviations from the paper: none. Ties go to the lower id.

    Examples
    --------
    >>> NearestNeighbours(f=1).mixed(np.array([[0.0], [2.0], [9.0]])).tolist()
    [[1.0], [1.0], [5.5]]
    """

    name: ClassVar[str] = "nearest-neighbours"

    f: Annotated[int, Ge(0)]

    def mixed(self, vectors: Array) -> Array:
        """Return as many vectors (K, p)."""
        K = len(vectors)
        kept = max(1, K - self.f)
        nearest = np.argsort(squared_distances(vectors), axis=1, kind="stable")[:, :kept]
        member = np.zeros((K, K), vectors.dtype)
        np.put_along_axis(member, nearest, vectors.dtype.type(1), axis=1)
        mixed: Array = member @ vectors
        mixed /= kept
        return mixed
