"""A fixed keyed part of every client's rows, for evaluations that look at some rows alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rayfed.core.arrays import Ints
from rayfed.core.rng import Key

_PADDING = np.uint64(2**32)  # above every word that is drawn


@dataclass(frozen=True)
class Subsample:
    """Says which rows of each client are looked at: the same share of everybody's.

    Parameters
    ----------
    seed : int
        Seed of the run, by which rows are drawn.
    most : int
        Rows of all evaluated clients together in a part, but for the one that every client with
        rows has at least.
    totals : mapping of str to int
        The rows of the evaluated clients, by part; see `rayfed.datasets.shards.PARTS`.

    Examples
    --------
    >>> quarter = Subsample(0, most=10, totals={"train": 40})
    >>> quarter.counts(np.array([0, 1, 9, 30]), "train").tolist()
    [0, 1, 2, 7]
    """

    seed: int
    most: int
    totals: Mapping[str, int]

    def whole(self, part: str) -> bool:
        """Whether all rows of a part are looked at."""
        return self.totals[part] <= self.most

    def counts(self, sizes: Ints, part: str) -> Ints:
        """Return how many rows of clients with so many rows (K,) are looked at (K,)."""
        if self.whole(part):
            return sizes
        return np.maximum(sizes * self.most // self.totals[part], np.minimum(sizes, 1))

    def rows(self, ids: Ints, sizes: Ints, width: int, part: str) -> tuple[Ints, Ints]:
        """Return which rows of clients are looked at.

        Parameters
        ----------
        ids, sizes : (K,) array of int
            Clients and their rows.
        width : int
            The number of rows to which all of them are padded.

        Returns
        -------
        index : (K, B) array of int
            Row numbers; B depends on the width alone, and what is beyond a client's count is 0.
        counts : (K,) array of int
            How many of them are the client's.
        """
        words = Key(self.seed, f"evaluate/{part}").bits(ids, width)
        words[np.arange(width) >= sizes[:, None]] = _PADDING
        counts = self.counts(sizes, part)
        broad = int(self.counts(np.array([width]), part)[0])
        index = np.argsort(words, axis=1, kind="stable")[:, :broad]
        index[np.arange(broad) >= counts[:, None]] = 0
        return index, counts
