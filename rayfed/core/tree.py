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
    root, levels = _shape(np.ascontiguousarray(ids, dtype=np.int64).tobytes())
    if values[0].nbytes > _LONG:
        return _long_sum(root, levels, values, weights)
    if weights is None:
        values = values.copy()
    else:
        values = values * weights.reshape(-1, *[1] * (values.ndim - 1))
    for left, right in levels:
        values[left] += values[right]
    total: Array = values[root]
    return total


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
        for a, b in pairs:
            rows[a] += rows[b]
        total[start : start + _CHUNK] = rows[root]
    return total.reshape(values.shape[1:])


@lru_cache(maxsize=256)
def _shape(ids: bytes) -> tuple[int, list[tuple[Ints, Ints]]]:
    """Return the index of the total and, for each level, which rows are added to which."""
    keys = np.frombuffer(ids, dtype=np.int64)
    bits = int(keys.max()).bit_length()
    place = np.argsort(bit_reverse(keys, bits), kind="stable")
    keys = keys[place]
    levels = []
    for level in range(bits - 1, -1, -1):
        keys = keys & ((1 << level) - 1)
        first = np.flatnonzero(keys[:-1] == keys[1:])  # in this order siblings are neighbours
        if len(first):
            levels.append((place[first], place[first + 1]))
            keep = np.ones(len(keys), dtype=bool)
            keep[first + 1] = False
            keys, place = keys[keep], place[keep]
    return int(place[0]), levels


def bit_reverse(ids: Ints, bits: int) -> Ints:
    """Return the ids with their lowest `bits` bits in reverse order.

    In this order the clients of every residue class modulo a power of two are neighbours.
    """
    out = np.zeros_like(ids)
    for k in range(bits):
        out |= ((ids >> k) & 1) << (bits - 1 - k)
    return out


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


def add(a: Sums, b: Sums) -> Sums:
    """Add two sets of sums by name; names that only one of them has are copied."""
    both = {name: a[name] + b[name] if name in b else a[name] for name in a}
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
        As for `join`; each of a class that is contained in one of these.
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
                below[parent] = add(sums, below[parent])
            else:
                below[parent] = add(below[parent], sums)
        fine = half
    (sums,) = level[modulus].values()
    return sums
