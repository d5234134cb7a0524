"""Scaled signs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from rayfed.channel.base import Codec, Draws, Shape, size_of
from rayfed.channel.codecs.base import as_numbers, as_words, packed, unpacked
from rayfed.core.arrays import Array


@dataclass(frozen=True, kw_only=True)
class Sign(Codec):
    """The sign of each coordinate, times their mean magnitude (Karimireddy et al. 2019).

    Karimireddy, Rebjock, Stich, Jaggi, "Error Feedback Fixes SignSGD and other Gradient Compression
    Schemes", ICML 2019, https://arxiv.org/abs/1901.09847, Section 5. The receiver decodes
    (||v||_1 / p) sign(v), with sign(0) = 1. The squared error is at most (1 - 1/p) of the squared
    norm.

    Examples
    --------
    >>> from rayfed.core.rng import Key
    >>> Sign().coded(np.array([[3.0, -1.0]]), Draws(Key(0, "uplink"), np.arange(1)))
    array([[ 2., -2.]])
    """

    name: ClassVar[str] = "sign"

    def error(self, shape: Shape) -> float:
        """Return 1 - 1/p."""
        return 1 - 1 / size_of(shape)

    def bits_of(self, shape: Shape, bits_per_number: int) -> int:
        """Return a sign for each coordinate, and their mean magnitude."""
        return size_of(shape) + bits_per_number

    def coded(self, v: Array, draw: Draws) -> Array:
        """Return mean(abs(v)) sign(v)."""
        size: Array = np.abs(v).mean(axis=1, keepdims=True)
        return np.where(v < 0, -size, size)

    def pack(self, v: Array, draw: Draws) -> bytes:
        """Return the code of one vector (1, p): the magnitude, and the signs."""
        size = np.abs(v).mean(axis=1)
        return packed([as_words(size), ((v[0] < 0).astype(np.uint64), 1)])

    def unpack(self, data: bytes, p: int, dtype: npt.DTypeLike, draw: Draws) -> Array:
        """Return what is decoded of a code (1, p)."""
        size, signs = unpacked(data, [(1, 8 * np.dtype(dtype).itemsize), (p, 1)])
        number = as_numbers(size, dtype)[None]
        return np.where(signs[None] > 0, -number, number)
