"""Small arrays as plain values, which are pickled and read again several times as fast.

A message of a small round is a dozen arrays of some hundred bytes. Most of what it takes to pickle
one of them goes into the type and the functions that its pickle names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from rayfed.core.arrays import Array

Flat: TypeAlias = dict[str, Any]
"""Named arrays as `flat` has them."""

SMALL = 2**12
"""Bytes from which arrays are pickled by NumPy: to copy them costs more than what that names."""
_PLAIN = frozenset("?bBhHiIlLqQefd")  # types that their letter describes


def flat(value: Any) -> Any:
    r"""Return a small array as a tuple of plain values, and anything else as it is.

    Examples
    --------
    >>> flat(np.ones(1))
    ((1,), 'd', bytearray(b'\x00\x00\x00\x00\x00\x00\xf0?'))
    >>> flat(None)
    """
    if type(value) is not np.ndarray or value.nbytes >= SMALL:
        return value
    kind = value.dtype
    if kind.char not in _PLAIN or not kind.isnative or not value.flags.c_contiguous:
        return value  # results may depend on the order in memory, too
    return value.shape, kind.char, bytearray(value.tobytes())


def restored(value: Any) -> Any:
    """Return the value that `flat` took; arrays are writable."""
    return np.ndarray(*value) if type(value) is tuple else value


def all_flat(arrays: Mapping[str, Array]) -> Flat:
    """Return named arrays, small ones as plain values."""
    return {name: flat(array) for name, array in arrays.items()}


def all_restored(packed: Flat) -> dict[str, Array]:
    """Return the values that `all_flat` took."""
    return {name: restored(value) for name, value in packed.items()}


class NamedArrays(dict[str, Array]):
    """Named arrays that are pickled as plain values, and arrive as a plain dict."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the reading function and its arguments."""
        return all_restored, (all_flat(self),)
