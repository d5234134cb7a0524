"""Mixers, which combine vectors before a robust rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.needs import FRESH, ROUNDS, VECTORS, Terms, refuse_flags
from rayfed.core.rng import Key


@dataclass(frozen=True, kw_only=True)
class Mixer:
    """Base of all mixers: they make vectors of vectors.

    One that needs sums alone assigns clients to groups beforehand (`labels`), and its server gets
    the means of these groups.

    Attributes
    ----------
    needs : set of Term
        What others must leave to it, from `rayfed.core.needs`; by default the vectors themselves.
    """

    name: ClassVar[str]
    needs: ClassVar[Terms] = frozenset({VECTORS})

    def __init_subclass__(cls) -> None:
        refuse_flags(cls, {"sees_vectors": "needs = frozenset({ROUNDS, FRESH})"})

    def labels(self, ids: Ints, key: Key) -> Ints | None:
        """Return the group (K,) of each client that is asked; None if vectors are mixed one by one.

        Parameters
        ----------
        ids : (K,) array of int
            Distinct clients, ascending.
        key : Key
            Of the run and the round.
        """
        return None

    def mixed(self, vectors: Array) -> Array:
        """Return the mixed vectors (L, p) of vectors (K, p)."""
        return vectors

    def together(self, clients: int) -> int:
        """Return the largest group size for a number of clients: all of them without groups."""
        return clients

    def count(self, clients: int) -> int:
        """Return the number L of mixed vectors for a number of replies."""
        return clients


@dataclass(frozen=True, kw_only=True)
class Buckets(Mixer):
    """Means of a few clients each, drawn anew in every round; the server needs their sums alone.

    Karimireddy, He, Jaggi, "Byzantine-Robust Learning on Heterogeneous Datasets via Bucketing",
    ICLR 2022, https://arxiv.org/abs/2006.09365, algorithm 1.

    The clients that are asked are shuffled and cut into buckets. Of a bucket those count who
    answer; one without replies is none.

    Parameters
    ----------
    size : int
        Clients s of a bucket; the last one may have fewer.

    Notes
    -----
    Deviations from the paper: none.

    Examples
    --------
    >>> sorted(Buckets(size=2).labels(np.arange(5), Key(0, "buckets")).tolist())
    [0, 0, 1, 1, 2]
    """

    name: ClassVar[str] = "buckets"
    needs: ClassVar[Terms] = frozenset({ROUNDS, FRESH})

    size: Annotated[int, Ge(2)] = 2

    def labels(self, ids: Ints, key: Key) -> Ints:
        """Return the bucket (K,) of each client that is asked."""
        place = key.permutation(len(ids))(np.arange(len(ids)))
        return np.asarray(place // self.size)

    def together(self, clients: int) -> int:
        """Return the clients of a bucket."""
        return min(clients, self.size)

    def count(self, clients: int) -> int:
        """Return the number of buckets."""
        return -(-clients // self.size)


@dataclass(frozen=True, kw_only=True)
class NearestNeighbours(Mixer):
    """The mean of the K - f vectors that are nearest to each, itself among them.

    Allouah, Farhadkhani, Guerraoui, Gupta, Pinot, Stephan, "Fixing by Mixing: A Recipe for Optimal
    Byzantine ML under Heterogeneity", AISTATS 2023, https://arxiv.org/abs/2302.01772, algorithm 2.

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
        count = max(1, K - self.f)
        nearest = np.argsort(squared_distances(vectors), axis=1, kind="stable")[:, :count]
        member = np.zeros((K, K), vectors.dtype)
        np.put_along_axis(member, nearest, vectors.dtype.type(1), axis=1)
        mixed: Array = member @ vectors
        mixed /= count
        return mixed


def squared_distances(vectors: Array) -> Floats:
    """Return the squared Euclidean distances (K, K) of vectors (K, p), from their differences.

    Norms and inner products would lose small distances between long vectors.
    """
    # imported late: most runs need no distances
    from scipy.spatial.distance import pdist, squareform

    if len(vectors) < 2:
        return np.zeros((len(vectors), len(vectors)))
    return np.asarray(squareform(pdist(vectors, "sqeuclidean"), checks=False))
