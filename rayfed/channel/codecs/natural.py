"""Natural compression: random rounding to powers of two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from rayfed.channel.base import Codec, Draws, Shape, size_of
from rayfed.channel.codecs.base import as_numbers, as_words, packed, unpacked
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
        """Return what is decoded of a code (1, p); what is no number comes back as infinite."""
        tail = _parts(dtype)[1]
        (words,) = unpacked(data, [(p, 8 * np.dtype(dtype).itemsize - tail)])
        return as_numbers(words << np.uint64(tail), dtype)[None]


def _parts(dtype: npt.DTypeLike) -> tuple[type[np.unsignedinteger], int]:
    """Return the type of a number's bits, and how many there are behind sign and exponent."""
    return (np.uint32, 23) if np.dtype(dtype).itemsize == 4 else (np.uint64, 52)
