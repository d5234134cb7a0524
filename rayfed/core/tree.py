"""Sums over clients in a fixed order, so that results do not depend on placement.

The sum over clients with id = r (mod m) is the sum over r (mod 2m) plus the sum over r + m
(mod 2m), down to single clients; branches without clients are skipped, not added as zeros. A host
that owns the residue class r (mod m) computes that branch, and the branches are joined here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from rayfed.core.arrays import Array, Ints

Sums: TypeAlias = Mapping[str, Array]
Class: TypeAlias = tuple[int, int]
"""A residue r and a modulus m, a power of two: the ids = r (mod m)."""
Branch: TypeAlias = tuple[int, int, Sums]
"""A residue r, a modulus m, and the sums over the clients of that class."""
EVERY: tuple[Class, ...] = ((0, 1),)
"""The class of all ids."""

_PADDED = 2**16  # bytes of short rows up to which most may stand for ids that are missing
_LONG = 2**14  # row size in bytes above which an addition costs more than a Python call
_CHUNK = 2**16  # numbers of a long row that are added up at once: they stay in the cache


def tree_sum(ids: Ints, values: Array, weights: Array | None = None) -> Array:
    """Add the rows of `values` in the order that the ids determine.

    Parameters
    ----------
    ids : (K,) array of int
        Distinct client ids, K >= 1.
    values : (K, ...) array
        One row per client; not modified.
    weights : (K,) array, optional
        Factor of each row, in the type of `values`.

    Returns
    -------
    (...) array

    Examples
    --------
    >>> tree_sum(np.array([0, 1, 2]), np.array([1e16, 1.0, -1e16]))  # (0 + 2) + 1
    np.float64(1.0)
    """
    key = np.ascontiguousarray(ids, dtype=np.int64).tobytes()
    bytes_ = values.nbytes // len(ids)  # of a row
    if values.dtype.kind == "f" and bytes_ <= _LONG:
        count, places = _places(key)
        if count <= max(2 * len(ids), _PADDED // max(bytes_, 1)):
            return _padded_sum(count, places, values, weights)
    root, levels = _shape(key)
    if bytes_ > _LONG:
        return _long_sum(root, levels, values, weights)
    values = values.copy() if weights is None else values * _by_row(weights, values)
    for left, right in levels:
        values[left] += values[right]
    total: Array = values[root]
    return total


def _padded_sum(count: int, places: Ints | slice, values: Array, weights: Array | None) -> Array:
    """Add short rows with rows of -0.0 for the ids that are missing, which change no bit."""
    sums: Array = np.empty((count, *values.shape[1:]), values.dtype)
    if not isinstance(places, slice):
        sums.fill(-0.0)
        sums[places] = values if weights is None else values * _by_row(weights, values)
    else:
        sums[places.stop :].fill(-0.0)
        if weights is None:
            sums[places] = values
        else:
            np.multiply(values, _by_row(weights, values), out=sums[places])
    while count > 1:
        count //= 2
        sums = sums[:count] + sums[count:]
    total: Array = sums[0]
    return total


@lru_cache(maxsize=256)
def _places(ids: bytes) -> tuple[int, Ints | slice]:
    """Return the number of clients of the smallest class with all ids, and the place of each (K,).

    Those of a class r (mod m) are in the order of their ids, and their number is a power of two. So
    its lower half is the class r (mod 2m) if it is added to the upper half down to single clients.
    """
    keys = np.frombuffer(ids, dtype=np.int64)
    differ = int(np.bitwise_or.reduce(keys ^ keys[0]))  # bits
    low = max(0, (differ & -differ).bit_length() - 1)
    count = 1 << (differ >> low).bit_length()
    places = (keys >> low) & (count - 1)
    if (places == np.arange(len(places))).all():
        return count, slice(0, len(places))
    return count, places


def _by_row(weights: Array, values: Array) -> Array:
    """Return factors of rows in a shape that NumPy multiplies with them."""
    return weights.reshape(-1, *[1] * (values.ndim - 1))


def _long_sum(
    root: int, levels: list[tuple[Ints, Ints]], values: Array, weights: Array | None
) -> Array:
    """Add long rows chunk by chunk: only the sum is a new array."""
    if not levels:
        only: Array = values[0].copy() if weights is None else values[0] * weights[0]
        return only
    flat = values.reshape(len(values), -1)
    factors = None if weights is None else weights[:, None]
    # indexing with arrays would copy rows three times
    pairs = [(a, b) for ab in levels for a, b in zip(ab[0].tolist(), ab[1].tolist(), strict=True)]
    total = np.empty(flat.shape[1], values.dtype)
    buffer = np.empty((len(flat), min(_CHUNK, len(total))), values.dtype)
    for start in range(0, len(total), _CHUNK):
        chunk = flat[:, start : start + _CHUNK]
        rows = buffer[:, : chunk.shape[1]]
        if factors is None:
            rows[...] = chunk
        else:
            np.multiply(chunk, factors, out=rows)
        row = list(rows)
        for a, b in pairs:
            np.add(row[a], row[b], out=row[a])
        total[start : start + _CHUNK] = row[root]
    return total.reshape(values.shape[1:])


@lru_cache(maxsize=256)
def _shape(ids: bytes) -> tuple[int, list[tuple[Ints, Ints]]]:
    """Return the index of the total and, for each level, which rows are added to which.

    With their bits in reverse order, ids are in the order of the leaves. Two neighbours meet at the
    highest bit in which they differ: there the rows up to the right one are added to the rows from
    the first one on that has all higher bits in common with it.
    """
    keys = np.frombuffer(ids, dtype=np.int64)
    leaves = bit_reverse(keys, int(keys.max()).bit_length())
    place = np.argsort(leaves, kind="stable")
    leaves = leaves[place]
    right = leaves[1:]
    meet = np.frexp((leaves[:-1] ^ right).astype(np.float64))[1]  # ids are exact as floats
    order = np.argsort(meet, kind="stable")
    first = np.searchsorted(leaves, (right >> meet) << meet)
    into, added = place[first[order]], place[1:][order]
    ends = np.cumsum(np.bincount(meet)).tolist() if len(meet) else []
    levels = [
        (into[start:end], added[start:end])
        for start, end in zip([0, *ends], ends, strict=False)
        if end > start
    ]
    return int(place[0]), levels


def bit_reverse(ids: Ints, bits: int) -> Ints:
    """Return the ids, below 2**32, with their lowest `bits` bits in reverse order.

    In this order the clients of every residue class modulo a power of two are neighbours.
    """
    low = np.asarray(ids & ((1 << bits) - 1), dtype="<u4")
    reverse = _REVERSED[low.view(np.uint8)].view(">u4")
    return reverse.astype(np.int64) >> (32 - bits)


_REVERSED = np.array([int(f"{byte:08b}"[::-1], 2) for byte in range(256)], dtype=np.uint8)
"""Bytes with their bits in reverse order."""


def class_sums(
    ids: Ints, leaf: Callable[[Ints], Sums], block: int, residue: int = 0, modulus: int = 1
) -> Sums:
    """Compute the sums over one residue class in blocks of at most `block` clients.

    Memory is bounded by one block and one partial sum per level.

    Parameters
    ----------
    ids : (K,) array of int
        The clients of the class residue (mod modulus), K >= 1.
    leaf : callable
        Maps ids to the sums over those ids, computed by `tree_sum`: new arrays, to be added to.
    block : int
        Largest number of clients that `leaf` is called with.
    """
    if len(ids) <= block:
        return leaf(ids)
    high = (ids & modulus) != 0
    low_ids, high_ids = ids[~high], ids[high]
    upper = residue + modulus
    if not len(low_ids):
        return class_sums(high_ids, leaf, block, upper, 2 * modulus)
    low = class_sums(low_ids, leaf, block, residue, 2 * modulus)
    if not len(high_ids):
        return low
    return _add_to(low, class_sums(high_ids, leaf, block, upper, 2 * modulus))


def _add_to(a: Sums, b: Sums) -> Sums:
    """Add two sets of sums as `add` does; long arrays of the first become the sums."""
    for name, total in a.items():
        if name in b and total.nbytes > _LONG:
            total += b[name]
    short = {name: rows for name, rows in b.items() if name not in a or rows.nbytes <= _LONG}
    return {**a, **add({name: a[name] for name in short if name in a}, short)}


def add(a: Sums, b: Sums, plus: Callable[[Array, Array], Array] = np.add) -> Sums:
    """Add two sets of sums by name; names that only one of them has are copied."""
    both = {name: plus(a[name], b[name]) if name in b else a[name] for name in a}
    return both | {name: b[name] for name in b if name not in a}


def join(branches: Iterable[Branch]) -> Sums:
    """Join disjoint branches into the sum over all their clients.

    Parameters
    ----------
    branches : iterable of (residue, modulus, sums)
        Moduli are powers of two; no class contains another.
    """
    ((_, _, sums),) = join_within(list(branches), EVERY)
    return sums


def join_within(branches: Sequence[Branch], within: Iterable[Class]) -> list[Branch]:
    """Join disjoint branches as far as some classes, and return one branch for each.

    Parameters
    ----------
    branches : sequence of (residue, modulus, sums)
        As for `join`; each of a class that is contained in one of these. Long rows of their sums
        may be overwritten.
    within : iterable of (residue, modulus)
        Disjoint classes; those without a branch are left out.

    Examples
    --------
    >>> x, y, z = ({"v": np.array(float(i))} for i in (1, 2, 4))
    >>> join_within([(0, 4, x), (1, 2, y), (2, 4, z)], [(0, 2), (1, 2)])
    [(0, 2, {'v': np.float64(5.0)}), (1, 2, {'v': array(2.)})]
    """
    joined = []
    for residue, modulus in within:
        level: dict[int, dict[int, Sums]] = {}
        for r, m, sums in branches:
            if m >= modulus and r % modulus == residue:
                level.setdefault(m, {})[r] = sums
        if level:
            joined.append((residue, modulus, _join_to(modulus, level)))
    return joined


def _join_to(modulus: int, level: dict[int, dict[int, Sums]]) -> Sums:
    """Join the branches of one class of this modulus, given by modulus and residue."""
    fine = max(level)
    while fine > modulus:
        half = fine // 2
        below = level.setdefault(half, {})
        for residue, sums in level.pop(fine).items():
            parent = residue % half
            if parent not in below:
                below[parent] = sums
            elif residue < half:  # the lower residue is the left operand
                below[parent] = add(sums, below[parent], _plus)
            else:
                below[parent] = add(below[parent], sums, _plus)
        fine = half
    (sums,) = level[modulus].values()
    return sums


def _plus(a: Array, b: Array) -> Array:
    """Add two arrays, long rows in place: fresh memory costs more than the addition."""
    writable = (x for x in (a, b) if x.flags.writeable and a.dtype == b.dtype and a.nbytes > _LONG)
    total: Array = np.add(a, b, out=next(writable, None))
    return total
