"""Keyed random numbers: every draw is a pure function of its key and coordinates.

There is no stateful generator. A draw is identified by (seed, purpose, client id,
round, ask, index) and computed by Philox4x32-10, a counter-based hash, for whole arrays of
client ids in one pass. The order of draws does not matter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from rayfed.core.arrays import Array, Bools, Floats, Ints
from rayfed.core.philox import Words, blocks

Draw: TypeAlias = int | Ints
"""A coordinate of draws: one number for all clients, or one for each (K,)."""
MaybeDraw = TypeVar("MaybeDraw", Draw, Draw | None)

Make: TypeAlias = Callable[[Sequence[Words], slice, Array], object]
"""How numbers are made of words: ``make(words, which, out)`` writes to out (k, b).

`words` are (k, b) arrays, which may be written to: the first word of every number, the second, ...
`which` are the k ids among all.
"""

_SHIFT = np.uint64(32)
_HIGH, _LOW = np.uint64(5), np.uint64(26)  # 32 - 5 bits of one word and 26 of the next are 53
_BELOW_ONE = np.nextafter(1.0, 0.0)
_MIXERS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93))


@dataclass(frozen=True)
class Key:
    """Key of a family of draws.

    Parameters
    ----------
    seed : int
        Seed of the run, or of the data if it has its own.
    purpose : str
        For example ``"delay"``; two purposes never share a number.

    Examples
    --------
    >>> a = Key(0, "delay").uniforms([4, 7], round=3)
    >>> b = Key(0, "delay").uniforms([7], round=3)
    >>> bool(a[1] == b[0])
    True
    """

    seed: int
    purpose: str

    def words(self) -> tuple[int, int]:
        """Return the 64-bit key of the hash as two 32-bit words."""
        text = f"{self.seed}:{self.purpose}".encode()
        digest = hashlib.blake2b(text, digest_size=8).digest()
        return int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little")

    def sub(self, purpose: str) -> Key:
        """Return the key of a purpose within this one."""
        return Key(self.seed, f"{self.purpose}/{purpose}")

    def bits(
        self,
        ids: npt.ArrayLike,
        count: int,
        *,
        round: npt.ArrayLike = 0,
        ask: npt.ArrayLike = 0,
        start: int = 0,
    ) -> npt.NDArray[np.uint64]:
        """Draw 32-bit words.

        Parameters
        ----------
        ids : (K,) array of int, 0 <= id < 2**32
        count : int
            Words per id.
        round, ask : int or (K,) array of int
            Coordinates of the draw, below 2**32: one for all ids, or one for each.
        start : int, a multiple of 4
            Index of the first word: ``bits(ids, 4, start=4)`` equals ``bits(ids, 8)[:, 4:]``.

        Returns
        -------
        (K, count) array of uint64, each below 2**32
        """
        return self.numbers(ids, count, _copied, dtype=np.uint64, round=round, ask=ask, start=start)

    def numbers(
        self,
        ids: npt.ArrayLike,
        count: int,
        make: Make,
        *,
        words: Literal[1, 2] = 1,
        dtype: npt.DTypeLike = np.float64,
        round: npt.ArrayLike = 0,
        ask: npt.ArrayLike = 0,
        start: int = 0,
    ) -> Array:
        """Draw numbers that are made of words as long as these are in the cache.

        Parameters
        ----------
        ids, round, ask
            As in `bits`.
        count : int
            Numbers per id.
        make : callable
            See `Make`.
        words : int
            How many of the words of `bits` a number is made of, one number after another.
        dtype : dtype
            Of the numbers.
        start : int, a multiple of 4
            Index of the first word.

        Returns
        -------
        (K, count) array
        """
        client = np.asarray(ids).astype(np.uint64)
        out = np.empty((len(client), count), dtype)
        each = 4 // words
        parts = blocks(
            self.words(), client, start // 4, -(-count // each),
            _coordinate(round, len(client)), _coordinate(ask, len(client)),
        )  # fmt: skip
        for which, columns, hashed in parts:
            first, stop = each * columns.start, min(each * columns.stop, count)
            for j in range(min(each, stop - first)):
                place = out[which, first + j : stop : each]
                own = hashed[j * words : (j + 1) * words]
                make([word[:, : place.shape[1]] for word in own], which, place)
        return out

    def uniforms(
        self,
        ids: npt.ArrayLike,
        count: int | None = None,
        *,
        round: npt.ArrayLike = 0,
        ask: npt.ArrayLike = 0,
    ) -> Floats:
        """Draw numbers from the open interval (0, 1), with 53 random bits.

        Returns
        -------
        (K, count) array, or (K,) if ``count`` is None
        """
        n = 1 if count is None else count
        u = self.numbers(ids, n, _uniform, words=2, round=round, ask=ask)
        return u[:, 0] if count is None else u

    def normals(
        self,
        ids: npt.ArrayLike,
        count: int | None = None,
        *,
        round: npt.ArrayLike = 0,
        ask: npt.ArrayLike = 0,
    ) -> Floats:
        """Draw standard normal numbers by inverse CDF, shaped as in `uniforms`."""
        from scipy.special import ndtri  # imported late: rarely needed by client actors

        z = self.uniforms(ids, count, round=round, ask=ask)
        ndtri(z, out=z)
        return z

    def integers(
        self,
        ids: npt.ArrayLike,
        high: npt.ArrayLike,
        count: int,
        *,
        round: npt.ArrayLike = 0,
        ask: npt.ArrayLike = 0,
        start: int = 0,
    ) -> Ints:
        """Draw integers from [0, high), with one bound per client.

        Parameters
        ----------
        ids, high : (K,) array of int
            Bounds below 2**31; the bias of the multiply-and-shift is below high / 2**32.
        start : int, a multiple of 4
            Index of the first, as in `bits`.

        Returns
        -------
        (K, count) array of int64
        """
        bound = np.asarray(high).astype(np.uint64)[:, None]

        def below(words: Sequence[Words], which: slice, out: Ints) -> None:
            product = words[0]
            product *= bound[which]
            np.right_shift(product, _SHIFT, out.view(np.uint64))

        return self.numbers(ids, count, below, dtype=np.int64, round=round, ask=ask, start=start)

    def permutation(self, n: int, *, round: int = 0) -> Permutation:
        """Return a keyed bijection on ``range(n)``, evaluated lazily."""
        return Permutation(n, tuple(self.bits([0], 8, round=round)[0]))

    def heads(self, n: int, length: int, *, round: int, rounds: int) -> Ints:
        """Return the first images of the permutations of some rounds, computed in one pass.

        Parameters
        ----------
        n : int
            Size of the domain.
        length : int
            Images of each permutation, at most n.
        round, rounds : int
            The first round, and how many there are.

        Returns
        -------
        (rounds, length) array of int
            Row k is ``permutation(n, round=round + k)(np.arange(length))``.
        """
        words = self.bits(np.zeros(rounds), 8, round=np.arange(round, round + rounds))
        keys = tuple(words.repeat(length, axis=0).T)
        positions = np.tile(np.arange(length), rounds)
        return Permutation(n, keys)(positions).reshape(rounds, length)

    def generator(self, *coordinates: int) -> np.random.Generator:
        """Return a NumPy generator, for draws that are made once for a whole table."""
        low, high = self.words()
        return np.random.default_rng([low, high, *coordinates])


@dataclass(frozen=True)
class Permutation:
    """A keyed bijection on ``range(n)``: a Feistel network with cycle walking.

    Parameters
    ----------
    n : int
        Size of the domain.
    keys : tuple of uint64 or of (K,) arrays of uint64
        Keys of the network's rounds, 32 bits each; arrays give each of K positions a permutation of
        its own.

    Examples
    --------
    >>> p = Key(0, "cohort").permutation(10)
    >>> sorted(p(np.arange(10)).tolist())
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """

    n: int
    keys: tuple[np.uint64 | npt.NDArray[np.uint64], ...]

    def __call__(self, positions: npt.ArrayLike) -> Ints:
        """Map positions (K,) in [0, n) to their images (K,)."""
        half = max(1, ((self.n - 1).bit_length() + 1) // 2)
        images = _network(np.asarray(positions).astype(np.uint64), self.keys, np.uint64(half))
        outside = np.flatnonzero(images >= self.n)
        while len(outside):  # walk the cycle until it re-enters the domain
            keys = [key[outside] if isinstance(key, np.ndarray) else key for key in self.keys]
            walked = images[outside] = _network(images[outside], keys, np.uint64(half))
            outside = outside[walked >= self.n]
        return images.astype(np.int64)


def _network(
    value: npt.NDArray[np.uint64],
    keys: Sequence[np.uint64 | npt.NDArray[np.uint64]],
    half: np.uint64,
) -> npt.NDArray[np.uint64]:
    """Run the rounds of a Feistel network on values of twice `half` bits."""
    mask = (np.uint64(1) << half) - np.uint64(1)
    left, right = value >> half, value & mask
    for key in keys:
        left, right = right, left ^ (_mix(right, key) & mask)
    return (left << half) | right


def part_of(draw: MaybeDraw, which: slice | Ints | Bools) -> MaybeDraw:
    """Return the coordinate of the draws of some of the clients."""
    return draw[which] if isinstance(draw, np.ndarray) else draw


def _coordinate(value: npt.ArrayLike, count: int) -> Words:
    """Return a coordinate of draws, one number (1,) or a number for each id (count,)."""
    each = np.asarray(value, dtype=np.uint64).reshape(-1)
    return each if len(each) == 1 else np.broadcast_to(each, count)


def _copied(words: Sequence[Words], which: slice, out: Words) -> None:
    """Make words of words."""
    out[...] = words[0]


def _uniform(words: Sequence[Words], which: slice, out: Floats) -> None:
    """Make numbers from (0, 1) of two words each."""
    high, low = words
    np.right_shift(high, _HIGH, high)
    np.left_shift(high, _LOW, high)
    np.right_shift(low, np.uint64(32) - _LOW, low)
    high |= low
    # 53 bits plus one half: never 0 and, since the last step rounds, pushed below 1
    u = high.view(np.int64).astype(np.float64)  # much faster than from uint64
    u += 0.5
    u *= 2.0**-53
    np.minimum(u, _BELOW_ONE, out=out)


def _mix(
    value: npt.NDArray[np.uint64], key: np.uint64 | npt.NDArray[np.uint64]
) -> npt.NDArray[np.uint64]:
    """Hash 32 bits to 32 bits under a 32-bit key (multiply, fold, twice)."""
    z = ((value ^ key) * _MIXERS[0]) ^ key
    z ^= z >> _SHIFT
    z *= _MIXERS[1]
    return z >> _SHIFT
