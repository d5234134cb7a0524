"""Rand-k: some coordinates, drawn at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from rayfed.channel.base import Draws, Shape, size_of
from rayfed.channel.codecs.base import Sparse, as_numbers, as_words, packed, unpacked
from rayfed.core.arrays import Array

_SEED = 64  # bits that say which coordinates


@dataclass(frozen=True, kw_only=True)
class RandK(Sparse):
    """Some coordinates, drawn at random without replacement (Stich et al. 2018).

    Stich, Cordonnier, Jaggi, "Sparsified SGD with Memory", NeurIPS 2018,
    https://arxiv.org/abs/1809.07599, Definition 2.1. The receiver decodes (p/k) v on the k
    coordinates, or v there, and 0 elsewhere. The coordinates are a seed of 64 bits.

    Parameters
    ----------
    unbiased : bool
        Whether numbers are multiplied by p/k, which makes the code unbiased, with omega = p/k - 1.
    shared : bool
        Whether all clients of a round send the same coordinates.

    Examples
    --------
    >>> from rayfed.core.rng import Key
    >>> draw = Draws(Key(0, "uplink"), np.arange(2))
    >>> RandK(k=1).coded(np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), draw)
    array([[ 3.,  0.,  0.],
           [ 0.,  0., 18.]])
    """

    name: ClassVar[str] = "rand-k"

    unbiased: bool = True
    shared: bool = False

    @property
    def alike(self) -> bool:
        """Whether all clients of a round send the same coordinates."""
        return self.shared

    @property
    def by_round(self) -> bool:
        """Whether the clients of a round share draws."""
        return self.shared

    def error(self, shape: Shape) -> float:
        """Return p/k - 1, or 1 - k/p of numbers that are not scaled."""
        share = self.number(shape) / size_of(shape)
        return 1 / share - 1 if self.unbiased else 1 - share

    def bits_of(self, shape: Shape, bits_per_number: int) -> int:
        """Return k numbers, and a seed unless all coordinates are sent."""
        k = self.number(shape)
        return k * bits_per_number + (_SEED if k < size_of(shape) else 0)

    def coded(self, v: Array, draw: Draws) -> Array:
        """Return (p/k) v, or v, on the coordinates that are drawn."""
        p, k = v.shape[1], self.number(v.shape[1:])
        if k == p:
            return v
        at = (draw.shared if self.shared else draw).choice(p, k)
        values = np.take_along_axis(v, np.broadcast_to(at, (len(v), k)), axis=1)
        out = np.zeros_like(v)
        np.put_along_axis(out, at, values * self._factor(p, k, v.dtype), axis=1)
        return out

    def _factor(self, p: int, k: int, dtype: npt.DTypeLike) -> Array:
        return np.asarray(p / k if self.unbiased else 1.0, dtype=dtype)

    def pack(self, v: Array, draw: Draws) -> bytes:
        """Return the code of one vector (1, p): a seed, and the numbers."""
        p, k = v.shape[1], self.number(v.shape[1:])
        if k == p:
            return packed([as_words(v[0])])
        at = (draw.shared if self.shared else draw).choice(p, k)[0]
        seed = np.reshape(draw.draw, 1).astype(np.uint64)
        return packed([(seed, _SEED), as_words(v[0, at])])

    def unpack(self, data: bytes, p: int, dtype: npt.DTypeLike, draw: Draws) -> Array:
        """Return what is decoded of a code (1, p); the seed stands for the draws."""
        k, width = self.number((p,)), 8 * np.dtype(dtype).itemsize
        if k == p:
            return as_numbers(unpacked(data, [(p, width)])[0], dtype)[None]
        _, words = unpacked(data, [(1, _SEED), (k, width)])
        out, at = np.zeros((1, p), dtype), (draw.shared if self.shared else draw).choice(p, k)
        out[0, at[0]] = as_numbers(words, dtype) * self._factor(p, k, dtype)
        return out
