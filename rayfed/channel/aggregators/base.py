"""Base class of robust rules, which replace the mean of what clients sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rayfed.channel.mixers import Mixer
from rayfed.core.arrays import Array, Floats
from rayfed.messages import State


@dataclass(frozen=True, kw_only=True)
class Aggregator:
    """Base of all rules. Every client counts once, however many rows it has.

    Parameters
    ----------
    before : buckets or nearest-neighbours, optional
        What mixes the vectors before the rule sees them.
    """

    name: ClassVar[str]

    before: Mixer | None = None

    @property
    def sees_vectors(self) -> bool:
        """Whether a real server would see single vectors; sums by bucket are none."""
        return self.before is None or self.before.sees_vectors

    def least(self) -> int:
        """Return the number of vectors from which on the rule does what it says."""
        return 1

    def init(self, p: int) -> State:
        """Return what the server keeps from round to round, before the first; nothing by default.

        Parameters
        ----------
        p : int
            Numbers of a vector.
        """
        return {}

    def aggregate(self, vectors: Array, weights: Floats, state: State) -> tuple[Array, State]:
        """Return what takes the place of the mean (p,), and what the server keeps.

        Parameters
        ----------
        vectors : (K, p) array of float
            Of distinct clients in the order of their ids, or of buckets; all are finite, K >= 1.
        weights : (K,) array of float
            What the vectors count for in the mean that is replaced. The rules of the literature
            treat all vectors alike.
        state : mapping of str to array
            What `init` or the last round returned.
        """
        raise NotImplementedError

    def robust(self, vectors: Array, weights: Floats, state: State) -> tuple[Array, State]:
        """Return `aggregate` of the finite vectors, mixed before where that is wanted.

        A vector with NaN or an infinite number is no vector: it is left out. If no other is left,
        the mean is NaN.
        """
        finite = np.isfinite(vectors).all(axis=1)
        if not finite.any():
            return np.full(vectors.shape[1], np.nan, vectors.dtype), state
        if not finite.all():
            vectors, weights = vectors[finite], weights[finite]
        if self.before is not None:
            vectors = self.before.mixed(vectors)
        return self.aggregate(vectors, weights, state)


def at_most(f: int, count: int) -> int:
    """Return how many of so many vectors may be faulty: f, but fewer than half of them.

    Examples
    --------
    >>> at_most(2, 5), at_most(2, 4), at_most(2, 1)
    (2, 1, 0)
    """
    return min(f, (count - 1) // 2)
