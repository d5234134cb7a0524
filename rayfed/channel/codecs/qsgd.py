"""QSGD: random rounding to levels between 0 and the norm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt
from annotated_types import Interval

from rayfed.channel.base import Codec, Draws, Shape, size_of
from rayfed.channel.codecs.base import as_numbers, as_words, bits_for, packed, unpacked
from rayfed.core.arrays import Array


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
        The s levels beside 0.

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
        """Return what is decoded of a code (1, p)."""
        widths = [(1, 8 * np.dtype(dtype).itemsize), (p, 1), (p, self._width)]
        norm, signs, level = unpacked(data, widths)
        number = as_numbers(norm, dtype)[None]
        return self._decoded(number, signs[None] > 0, level[None].astype(np.float64))

    @property
    def _width(self) -> int:
        return bits_for(self.levels + 1)
