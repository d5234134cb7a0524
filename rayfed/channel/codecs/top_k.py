"""Top-k: the largest coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from rayfed.channel.base import Draws, Shape, size_of
from rayfed.channel.codecs.base import Sparse, as_numbers, as_words, bits_for, packed, unpacked
from rayfed.core.arrays import Array, Bools


@dataclass(frozen=True, kw_only=True)
class TopK(Sparse):
    """The k coordinates that are largest in magnitude (Stich et al. 2018).

    Stich, Cordonnier, Jaggi, "Sparsified SGD with Memory", NeurIPS 2018,
    https://arxiv.org/abs/1809.07599, Definition 2.1. Of equal ones the first are sent; those that
    are no numbers are the largest. The squared error is at most (1 - k/p) of the squared norm.

    Parameters
    ----------
    index_bits : bool
        Whether the places of the coordinates are counted, ceil(log2 p) bits each.

    Examples
    --------
    >>> from rayfed.core.rng import Key
    >>> TopK(k=2).coded(np.array([[1.0, -3.0, 1.0]]), Draws(Key(0, "uplink"), np.arange(1)))
    array([[ 1., -3.,  0.]])
    """

    name: ClassVar[str] = "top-k"

    index_bits: bool = True

    def error(self, shape: Shape) -> float:
        """Return 1 - k/p."""
        return 1 - self.number(shape) / size_of(shape)

    def bits_of(self, shape: Shape, bits_per_number: int) -> int:
        """Return k numbers with their places; all p numbers have none."""
        k, p = self.number(shape), size_of(shape)
        places = bits_for(p) if self.index_bits and k < p else 0
        return k * (bits_per_number + places)

    def coded(self, v: Array, draw: Draws) -> Array:
        """Return v on its largest coordinates, 0 elsewhere."""
        k = self.number(v.shape[1:])
        return v if k == v.shape[1] else np.where(largest(v, k), v, v.dtype.type(0))

    def pack(self, v: Array, draw: Draws) -> bytes:
        """Return the code of one vector (1, p): the places, and the numbers."""
        p, k = v.shape[1], self.number(v.shape[1:])
        if k == p:
            return packed([as_words(v[0])])
        at = np.flatnonzero(largest(v, k)[0])
        places = [(at.astype(np.uint64), bits_for(p))] if self.index_bits else []
        return packed([*places, as_words(v[0, at])])

    def unpack(self, data: bytes, p: int, dtype: npt.DTypeLike, draw: Draws) -> Array:
        """Return what is decoded of a code (1, p) with places."""
        k, width = self.number((p,)), 8 * np.dtype(dtype).itemsize
        if k == p:
            return as_numbers(unpacked(data, [(p, width)])[0], dtype)[None]
        at, words = unpacked(data, [(k, bits_for(p)), (k, width)])
        out = np.zeros((1, p), dtype)
        out[0, at.astype(np.int64)] = as_numbers(words, dtype)
        return out


def largest(v: Array, k: int) -> Bools:
    """Return which k coordinates of each row (K, p) are largest in magnitude.

    Of equal ones the first are taken. What is no number counts as the largest.
    """
    size = np.abs(v)
    least = np.partition(size, v.shape[1] - k, axis=1)[:, v.shape[1] - k, None]
    with np.errstate(invalid="ignore"):
        chosen: Bools = ~(size < least)
    for row in np.flatnonzero(np.count_nonzero(chosen, axis=1) != k).tolist():
        order = np.argsort(-np.where(np.isnan(size[row]), np.inf, size[row]), kind="stable")
        chosen[row] = False
        chosen[row, order[:k]] = True
    return chosen
