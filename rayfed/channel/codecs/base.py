"""What several codecs share: how many coordinates are sent, and codes as bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Interval

from rayfed.channel.base import Codec, Shape, size_of
from rayfed.core.arrays import Array
from rayfed.core.errors import ScenarioError

Bits = npt.NDArray[np.uint8]
"""Single bits, 0 or 1."""


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
        if (self.k is None) == (self.share is None):
            raise ScenarioError("k", "give either k or share")

    @classmethod
    def example(cls, folder: Path) -> Self:
        """Return a value for checks."""
        return cls(k=2)

    def number(self, shape: Shape) -> int:
        """Return how many coordinates of a piece are sent."""
        p = size_of(shape)
        return min(p, max(1, round(self.share * p)) if self.k is None else self.k)  # type: ignore[operator]


def bits_for(count: int) -> int:
    """Return the bits that tell so many values apart, ceil(log2 count).

    Examples
    --------
    >>> [bits_for(count) for count in (1, 2, 3, 112)]
    [0, 1, 2, 7]
    """
    return (count - 1).bit_length()


def packed(columns: Sequence[tuple[npt.NDArray[np.uint64], int]]) -> bytes:
    """Return values (n,) of so many bits each, column after column, as bytes."""
    bits = [_bits(values, width) for values, width in columns]
    return np.packbits(np.concatenate(bits)).tobytes()


def unpacked(data: bytes, columns: Sequence[tuple[int, int]]) -> list[npt.NDArray[np.uint64]]:
    """Return the columns of `packed`, each given by the number of its values and their bits."""
    bits, found, start = np.unpackbits(np.frombuffer(data, np.uint8)), [], 0
    for count, width in columns:
        rows = bits[start : start + count * width].reshape(count, width)
        found.append(rows.astype(np.uint64) @ _powers(width))
        start += count * width
    return found


def as_words(numbers: Array) -> tuple[npt.NDArray[np.uint64], int]:
    """Return floating-point numbers (n,) as a column of `packed`."""
    kind = f"u{numbers.dtype.itemsize}"
    return np.ascontiguousarray(numbers).view(kind).astype(np.uint64), 8 * numbers.dtype.itemsize


def as_numbers(words: npt.NDArray[np.uint64], dtype: npt.DTypeLike) -> Array:
    """Return what `as_words` returned as numbers again."""
    return words.astype(f"u{np.dtype(dtype).itemsize}").view(dtype)


def _bits(values: npt.NDArray[np.uint64], width: int) -> Bits:
    shifts = np.arange(width, dtype=np.uint64)[::-1]
    bits: Bits = ((values[:, None] >> shifts) & np.uint64(1)).astype(np.uint8).ravel()
    return bits


def _powers(width: int) -> npt.NDArray[np.uint64]:
    return np.uint64(1) << np.arange(width, dtype=np.uint64)[::-1]
