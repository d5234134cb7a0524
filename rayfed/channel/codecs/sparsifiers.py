"""Sparsifiers: some coordinates of each piece are sent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Self

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Interval

from rayfed.channel.base import Codec, Draws, Shape, size_of
from rayfed.channel.codecs.bits import as_numbers, as_words, bits_for, packed, unpacked
from rayfed.core.arrays import Array, Bools
from rayfed.core.errors import ScenarioError
from rayfed.core.shares import rounded

_SEED = 64  # bits that say which coordinates


@dataclass(frozen=True, kw_only=True)
class Sparse(Codec):
    """Base of codecs that send some coordinates of each piece.

    Parameters
    ----------
    k : int, optional
        How many coordinates; all of smaller pieces.
    share : float, optional
        How many, as a share of the coordinates, rounded, at least one.
    """

    k: Annotated[int, Ge(1)] | None = None
    share: Annotated[float, Interval(gt=0, le=1)] | None = None

    def __post_init__(self) -> None:
        if self.k is not None and self.share is not None:
            raise ScenarioError(
                "k", f"found {self.k} and share {self.share:g}; leave one of them out"
            )
        if self.k is None and self.share is None:
            raise ScenarioError("k", "is missing; give k or share")

    @classmethod
    def example(cls, folder: Path) -> Self:
        """Return a value for checks."""
        return cls(k=2)

    def number(self, shape: Shape) -> int:
        """Return the number of sent coordinates of a piece."""
        p = size_of(shape)
        return min(p, self.k or max(1, rounded(self.share or 0.0, p)))


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
        """Return the decoded vector of a code (1, p); the seed replaces the draws."""
        k, width = self.number((p,)), 8 * np.dtype(dtype).itemsize
        if k == p:
            return as_numbers(unpacked(data, [(p, width)])[0], dtype)[None]
        _, words = unpacked(data, [(1, _SEED), (k, width)])
        out, at = np.zeros((1, p), dtype), (draw.shared if self.shared else draw).choice(p, k)
        out[0, at[0]] = as_numbers(words, dtype) * self._factor(p, k, dtype)
        return out


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
        """Return the decoded vector of a code (1, p) with indices."""
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
