"""Gram matrices of the clients' rows, kept from round to round."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

import numpy as np

from rayfed.core.arrays import Array, Ints

GRAMS_BYTES = 2**26


class Grams:
    """Inner products of the rows of single clients, those that were asked for last.

    They are kept by client, since a cohort that is drawn anew in every round never recurs.

    Parameters
    ----------
    limit : int
        Bytes to keep at most.
    """

    def __init__(self, limit: int = GRAMS_BYTES) -> None:
        self.limit = limit
        self.held: OrderedDict[Hashable, Array] = OrderedDict()
        self.bytes = 0

    def of(self, version: Hashable, ids: Ints, X: Array) -> Array:
        """Return ``A_i A_i'`` (K, n, n) of the rows A_i of K clients.

        Parameters
        ----------
        version : hashable
            What tells these rows from others that the clients had or will have.
        ids : (K,) array of int
            The clients.
        X : (K, n, d) array
            All their rows.
        """
        keys = [(version, i) for i in ids.tolist()]
        if not any(key in self.held for key in keys):
            grams: Array = X @ X.swapaxes(1, 2)
            for key, gram in zip(keys, grams, strict=True):
                self._keep(key, gram.copy())  # a view would hold all of them
            return grams
        return np.stack([self._held_or_made(key, A) for key, A in zip(keys, X, strict=True)])

    def _held_or_made(self, key: Hashable, A: Array) -> Array:
        if key in self.held:
            self.held.move_to_end(key)
            return self.held[key]
        gram: Array = A @ A.T
        self._keep(key, gram)
        return gram

    def _keep(self, key: Hashable, gram: Array) -> None:
        self.held[key] = gram
        self.bytes += gram.nbytes
        while self.bytes > self.limit:
            self.bytes -= self.held.popitem(last=False)[1].nbytes
