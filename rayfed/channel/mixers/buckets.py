"""Buckets: means of a few vectors, drawn anew in every round.

Karimireddy, He, Jaggi, "Byzantine-Robust Learning on Heterogeneous Datasets via Bucketing", ICLR
2022, https://arxiv.org/abs/2006.09365, algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from rayfed.channel.mixers.base import Mixer
from rayfed.core.arrays import Ints
from rayfed.core.rng import Key


@dataclass(frozen=True, kw_only=True)
class Buckets(Mixer):
    """Means of a few clients each, drawn anew in every round; the server needs their sums alone.

    The clients that are asked are shuffled and cut into buckets. Of a bucket those count who
    answer; one that nobody answers of is none.

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
    sees_vectors: ClassVar[bool] = False

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
