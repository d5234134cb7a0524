"""Distances between vectors."""

from __future__ import annotations

import numpy as np

from rayfed.core.arrays import Array, Floats


def squared_distances(vectors: Array) -> Floats:
    """Return the squared Euclidean distances (K, K) of vectors (K, p), from their differences.

    Norms and inner products would lose small distances between long vectors.
    """
    from scipy.spatial.distance import cdist  # imported late: most runs need no distances

    return np.asarray(cdist(vectors, vectors, "sqeuclidean"))
