"""Quantisers: each coordinate is rounded to one of a few values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt
from annotated_types import Interval

from rayfed.channel.base import Codec, Draws, Shape, size_of
from rayfed.channel.codecs.bits import as_numbers, as_words, bits_for, packed, unpacked
from rayfed.core.arrays import Array


@dataclass(frozen=True, kw_only=True)
class Natural(Codec):
    """Random rounding of each coordinate to a power of two (Horvath et al. 2019).

    Horvath, Ho, Horvath, Sahu, Canini, Richtarik, "Natural Compression for Distributed Deep
    Learning", https://arxiv.org/abs/1905.10988, Definition 1. It is unbiased, with omega = 1/8
    (Theorem 1). What is sent is the sign and the exponent: 9 bits of a number of 32, 12 of 64.

    Notes
    -----
    Numbers below the smallest normal one are rounded to it or to 0.

    Examples
    --------
    >>> from rayfed.core.rng import Key
    >>> Natural().coded(np.array([[0.5, -8.0, 0.0]]), Draws(Key(0, "uplink"), np.arange(1)))
    array([[ 0.5, -8. ,  0. ]])
    """

    name: ClassVar[str] = "natural"

    @property
    def unbiased(self) -> bool:
        """True."""
        return True

    def error(self, shape: Shape) -> float:
        """Return 1/8."""
        return 0.125

    def bits_of(self, shape: Shape, bits_per_number: int) -> int:
        """Return a sign and an exponent for each coordinate."""
        return size_of(shape) * (12 if bits_per_number > 32 else 9)

    def coded(self, v: Array, draw: Draws) -> Array:
        """Return v, each coordinate rounded to a power of two."""
        unsigned, tail = _parts(v.dtype)
        shift = 32 - tail if tail < 32 else tail - 32
        random = draw.words(v.shape[1])
        # as many random bits as there are behind the exponent: they carry into it as often as
        # the number is nearer to the next power
        if tail < 32:
            random = random >> np.uint64(shift)
        else:
            random = (random << np.uint64(shift)) + np.uint64(1 << (shift - 1))
        words = np.ascontiguousarray(v).view(unsigned) + random.astype(unsigned)
        rounded: Array = (words >> unsigned(tail) << unsigned(tail)).view(v.dtype)
        return np.where(np.isfinite(v), rounded, v)

    def pack(self, v: Array, draw: Draws) -> bytes:
        """Return the code of one vector (1, p): signs with exponents."""
        tail = _parts(v.dtype)[1]
        words, width = as_words(self.coded(v, draw)[0])
        return packed([(words >> np.uint64(tail), width - tail)])

    def unpack(self, data: bytes, p: int, dtype: npt.DTypeLike, draw: Draws) -> Array:
        """Return the decoded vector of a code (1, p); non-finite values decode as infinite."""
        tail = _parts(dtype)[1]
        (words,) = unpacked(data, [(p, 8 * np.dtype(dtype).itemsize - tail)])
        return as_numbers(words << np.uint64(tail), dtype)[None]


def _parts(dtype: npt.DTypeLike) -> tuple[type[np.unsignedinteger], int]:
    """Return the type of a number's bits, and the number of bits behind sign and exponent."""
    return (np.uint32, 23) if np.dtype(dtype).itemsize == 4 else (np.uint64, 52)


@dataclass(frozen=True, kw_only=True)
class QSGD(Codec):
    """Random rounding of each coordinate to a level (Alistarh et al. 2017).

    Alistarh, Grubic, Li, Tomioka, Vojnovic, "QSGD: Communication-Efficient SGD via Gradient
    Quantization and Encoding", NeurIPS 2017, https://arxiv.org/abs/1610.02132, Section 3.1. The
    receiver decodes ||v|| sign(v_j) xi_j / s, where xi_j is s |v_j| / ||v|| rounded down or up at
    random, so that it is unbiased. omega = min(p / s^2, sqrt(p) / s) (Lemma 3.1).

    Parameters
    ----------
    levels : int
        The s levels other than 0.

    Notes
    -----
    Deviations from the paper: levels have a fixed length, no Elias code, whose length would depend
    on the data.

    Examples
    --------
    >>> from rayfed.core.rng import Key
    >>> QSGD(levels=5).coded(np.array([[3.0, -4.0]]), Draws(Key(0, "uplink"), np.arange(1)))
    array([[ 3., -4.]])
    """

    name: ClassVar[str] = "qsgd"

    levels: Annotated[int, Interval(ge=1, le=2**20)] = 15

    @property
    def unbiased(self) -> bool:
        """True."""
        return True

    def error(self, shape: Shape) -> float:
        """Return min(p / s^2, sqrt(p) / s)."""
        p = size_of(shape)
        return min(p / self.levels**2, math.sqrt(p) / self.levels)

    def bits_of(self, shape: Shape, bits_per_number: int) -> int:
        """Return the norm, and a sign and a level for each coordinate."""
        return bits_per_number + size_of(shape) * (1 + bits_for(self.levels + 1))

    def coded(self, v: Array, draw: Draws) -> Array:
        """Return ||v|| sign(v) xi / s."""
        norm, level = self._levels(v, draw)
        return self._decoded(norm, np.signbit(v), level)

    def _levels(self, v: Array, draw: Draws) -> tuple[Array, Array]:
        """Return norms (K, 1) in the type of v, and levels (K, p); NaN where v is not finite."""
        size = np.abs(v, dtype=np.float64)
        most = size.max(axis=1, keepdims=True)
        most[most == 0] = 1.0
        with np.errstate(all="ignore"):
            square = np.square(size / most)  # of small numbers squares would be 0
            norm = (most * np.sqrt(square.sum(axis=1, keepdims=True))).astype(v.dtype)
            exact = size / norm.astype(np.float64) * self.levels
            exact[norm[:, 0] == 0] = 0.0
        return norm, np.minimum(np.floor(exact + draw.uniforms(v.shape[1])), self.levels)

    def _decoded(self, norm: Array, negative: Array, level: Array) -> Array:
        size = (norm.astype(np.float64) / self.levels) * level
        return np.where(negative, -size, size).astype(norm.dtype)

    def pack(self, v: Array, draw: Draws) -> bytes:
        """Return the code of one vector (1, p): the norm, the signs, the levels."""
        norm, level = self._levels(v, draw)
        signs = np.signbit(v[0]).astype(np.uint64), 1
        return packed([as_words(norm[0]), signs, (level[0].astype(np.uint64), self._width)])

    def unpack(self, data: bytes, p: int, dtype: npt.DTypeLike, draw: Draws) -> Array:
        """Return the decoded vector of a code (1, p)."""
        widths = [(1, 8 * np.dtype(dtype).itemsize), (p, 1), (p, self._width)]
        norm, signs, level = unpacked(data, widths)
        number = as_numbers(norm, dtype)[None]
        return self._decoded(number, signs[None] > 0, level[None].astype(np.float64))

    @property
    def _width(self) -> int:
        return bits_for(self.levels + 1)


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
        """Return the decoded vector of a code (1, p)."""
        size, signs = unpacked(data, [(1, 8 * np.dtype(dtype).itemsize), (p, 1)])
        number = as_numbers(size, dtype)[None]
        return np.where(signs[None] > 0, -number, number)
