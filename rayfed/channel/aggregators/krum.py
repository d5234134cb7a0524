"""Krum and Multi-Krum: vectors that are close to most others.

Blanchard, El Mhamdi, Guerraoui, Stainer, "Machine Learning with Adversaries: Byzantine Tolerant
Gradient Descent", NeurIPS 2017, https://arxiv.org/abs/1703.02757, section 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from rayfed.channel.aggregators.base import Aggregator, at_most
from rayfed.channel.mixers.distances import squared_distances
from rayfed.core.arrays import Array, Floats, Ints
from rayfed.messages import State


@dataclass(frozen=True, kw_only=True)
class _Scored(Aggregator):
    """Base of rules that score vectors by their nearest neighbours."""

    f: Annotated[int, Ge(0)]

    def least(self) -> int:
        """Return 2 f + 1."""
        return 2 * self.f + 1

    def ranked(self, vectors: Array) -> Ints:
        """Return the places of vectors (K, p), the best score first; ties go to the lower place.

        A score is the sum of the squared distances to the K - f - 1 nearest other vectors.
        """
        nearest = len(vectors) - at_most(self.f, len(vectors))
        squares = np.sort(squared_distances(vectors), axis=1)[:, 1:nearest]  # 0 is to itself
        scores = squares.sum(axis=1)
        return np.argsort(scores, kind="stable")


@dataclass(frozen=True, kw_only=True)
class Krum(_Scored):
    """The vector with the least sum of squared distances to its nearest neighbours.

    Parameters
    ----------
    f : int
        Faulty clients that are feared, fewer than half; of few vectors fewer are.

    Notes
    -----
    Deviations from the paper: a score is over the K - f - 1 nearest vectors, as later work has it;
    there over K - f - 2.

    Examples
    --------
    >>> Krum(f=1).aggregate(np.array([[0.0], [1.0], [1.5], [9.0]]), np.ones(4), {})[0].tolist()
    [1.0]
    """

    name: ClassVar[str] = "krum"

    def aggregate(self, vectors: Array, weights: Floats, state: State) -> tuple[Array, State]:
        """Return one (p,) of the vectors (K, p)."""
        chosen: Array = vectors[self.ranked(vectors)[0]]
        return chosen.copy(), state


@dataclass(frozen=True, kw_only=True)
class MultiKrum(_Scored):
    """The mean of the K - f vectors with the best scores of `Krum`.

    Parameters
    ----------
    f : int
        Faulty clients that are feared, fewer than half; of few vectors fewer are.

    Notes
    -----
    Deviations from the paper: m = K - f, which the paper leaves open; the scores are those of
    `Krum`.

    Examples
    --------
    >>> MultiKrum(f=1).aggregate(np.array([[0.0], [1.0], [2.0], [9.0]]), np.ones(4), {})[0]
    array([1.])
    """

    name: ClassVar[str] = "multi-krum"

    def aggregate(self, vectors: Array, weights: Floats, state: State) -> tuple[Array, State]:
        """Return the mean (p,) of some of the vectors (K, p)."""
        kept = len(vectors) - at_most(self.f, len(vectors))
        mean: Array = vectors[np.sort(self.ranked(vectors)[:kept])].mean(axis=0)
        return mean, state
