"""Numbers of clients or rows that are shares of others, free of rounding errors.

The numbers in a scenario are decimals: 0.56 of 25 is 14, though 0.56 * 25 > 14 in floating point.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import overload

from rayfed.core.arrays import Ints

_DENOMINATOR = 10**9  # decimals of six digits, and p/q up to q = 10^6, are found exactly


@overload
def at_least(share: float, counts: int) -> int: ...
@overload
def at_least(share: float, counts: Ints) -> Ints: ...
def at_least(share: float, counts: int | Ints) -> int | Ints:
    """Return the share of a count, or of each of (K,), rounded up.

    Examples
    --------
    >>> at_least(0.56, 25), at_least(0.57, 25)
    (14, 15)
    """
    return -at_most(-share, counts)


@overload
def at_most(share: float, counts: int) -> int: ...
@overload
def at_most(share: float, counts: Ints) -> Ints: ...
def at_most(share: float, counts: int | Ints) -> int | Ints:
    """Return the share of a count, or of each of (K,), rounded down.

    Examples
    --------
    >>> import numpy as np
    >>> at_most(0.29, 100), at_most(1 / 3, np.array([2, 3]))
    (29, array([0, 1]))
    """
    exact = _exact(share)
    return exact.numerator * counts // exact.denominator


@overload
def rounded(share: float, counts: int) -> int: ...
@overload
def rounded(share: float, counts: Ints) -> Ints: ...
def rounded(share: float, counts: int | Ints) -> int | Ints:
    """Return the share of a count, or of each of (K,), rounded; halves go to the even number.

    Examples
    --------
    >>> import numpy as np
    >>> rounded(0.82, 75), rounded(0.5, np.array([3, 5]))
    (62, array([2, 2]))
    """
    exact = _exact(share)
    floor, rest = divmod(exact.numerator * counts, exact.denominator)
    return floor + (2 * rest + floor % 2 > exact.denominator)


@lru_cache(maxsize=1024)
def _exact(share: float) -> Fraction:
    """Return the decimal, or the simple fraction, that a number stands for."""
    return Fraction(share).limit_denominator(_DENOMINATOR)
