"""Codes as bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rayfed.core.arrays import Array

Bits = npt.NDArray[np.uint8]
"""Single bits, 0 or 1."""


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
    """Return numbers from the result of `as_words`."""
    return words.astype(f"u{np.dtype(dtype).itemsize}").view(dtype)


def _bits(values: npt.NDArray[np.uint64], width: int) -> Bits:
    shifts = np.arange(width, dtype=np.uint64)[::-1]
    bits: Bits = ((values[:, None] >> shifts) & np.uint64(1)).astype(np.uint8).ravel()
    return bits


def _powers(width: int) -> npt.NDArray[np.uint64]:
    return np.uint64(1) << np.arange(width, dtype=np.uint64)[::-1]
