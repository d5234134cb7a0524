"""Philox4x32-10, a counter-based hash, for whole arrays of counters.

References
----------
J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC 2011.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Words: TypeAlias = npt.NDArray[np.uint64]
"""32-bit words, each in an element of its own."""
Four: TypeAlias = tuple[Words, Words, Words, Words]

_ROUNDS = 10
_SPREAD = 3  # rounds until words depend on all of a counter
_BLOCKS = 2**14  # hashed together, so that they stay in the cache


def _constant(value: int) -> Words:
    # of no dimensions: to look at a scalar takes NumPy twice as long
    return np.array(value, dtype=np.uint64)


_LOW, _SHIFT = _constant(0xFFFFFFFF), _constant(32)
_MULTIPLIERS = (_constant(0xD2511F53), _constant(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)


def philox(counter: Four, key: tuple[int, int]) -> Four:
    """Hash four 32-bit counter words under a 64-bit key (Salmon et al. 2011, Philox4x32-10).

    Parameters
    ----------
    counter : tuple of four uint64 arrays that broadcast
        Each element holds a 32-bit word.
    key : tuple of two int
        Two 32-bit words.

    Returns
    -------
    tuple of four uint64 arrays of one shape
        32 random bits in each element. The arrays are the caller's to write to.
    """
    c0, c1, c2, c3 = counter
    keys = _schedule(*key)
    for k0, k1 in keys[:_SPREAD]:
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c2 = (p1 >> _SHIFT) ^ (c1 ^ k0), (p0 >> _SHIFT) ^ (c3 ^ k1)
        c1, c3 = p1 & _LOW, p0 & _LOW
    shape = np.broadcast(c0, c1, c2, c3).shape
    c0, c1, c2, c3 = (_full(word, shape) for word in (c0, c1, c2, c3))
    spare = np.empty(shape, dtype=np.uint64)
    for k0, k1 in keys[_SPREAD:]:
        c0 *= _MULTIPLIERS[0]
        c2 *= _MULTIPLIERS[1]
        _fold(c2, c1, k0, spare)
        _fold(c0, c3, k1, spare)
        c0, c1, c2, c3 = c1, c2, c3, c0
    return c0, c1, c2, c3


def _full(word: Words, shape: tuple[int, ...]) -> Words:
    """Return a word, with elements of its own for all counters."""
    if word.shape == shape:
        return word
    own = np.empty(shape, dtype=np.uint64)
    own[...] = word
    return own


def _fold(product: Words, word: Words, key: Words, spare: Words) -> None:
    """Mix the high half of a product and a key into a word, and leave the low half."""
    np.right_shift(product, _SHIFT, spare)
    word ^= spare
    word ^= key
    product &= _LOW


@lru_cache(maxsize=1024)
def _schedule(k0: int, k1: int) -> tuple[tuple[Words, Words], ...]:
    """Return the keys of the rounds."""
    return tuple(
        (_constant((k0 + i * _WEYL[0]) % 2**32), _constant((k1 + i * _WEYL[1]) % 2**32))
        for i in range(_ROUNDS)
    )


def blocks(
    key: tuple[int, int], ids: Words, first: int, count: int, round: Words, ask: Words
) -> Iterator[tuple[slice, slice, Four]]:
    """Hash the counters (block, id, round, ask) of some blocks of four words, part by part.

    Parameters
    ----------
    key : tuple of two int
    ids : (K,) array
    first, count : int
        The first of the blocks, and how many there are.
    round, ask : (K,) or (1,) array

    Yields
    ------
    which, columns : slice
        The k ids of a part among the K, and its b blocks among the `count`.
    words : tuple of four (k, b) arrays
        The four words of every block. The arrays are the caller's to write to.
    """
    wide = max(1, min(_BLOCKS, count))
    high = _BLOCKS // wide
    for top in range(0, len(ids), high):
        which = slice(top, min(top + high, len(ids)))
        of_ids = [c if len(c) == 1 else c[which] for c in (ids, round, ask)]
        for left in range(0, count, wide):
            columns = slice(left, min(left + wide, count))
            block = np.arange(first + columns.start, first + columns.stop, dtype=np.uint64)
            yield which, columns, _grid(key, block, *of_ids)


def _grid(key: tuple[int, int], block: Words, client: Words, round: Words, ask: Words) -> Four:
    """Return the words (k, b) of b blocks of k ids."""
    if len(client) <= len(block):
        return philox((block, client[:, None], round[:, None], ask[:, None]), key)
    # the longer axis is the inner one of NumPy's loops
    c0, c1, c2, c3 = philox((block[:, None], client, round, ask), key)
    return c0.T, c1.T, c2.T, c3.T
