"""Residue classes of client ids, and which host gets which: each is a branch of every sum."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from rayfed.core.arrays import Ints
from rayfed.core.tree import EVERY, Class, bit_reverse


def classes(
    clients: int, hosts: int | Sequence[int], within: Sequence[Class] = EVERY
) -> list[list[Class]]:
    """Assign residue classes to hosts as evenly as their client counts allow.

    Parameters
    ----------
    clients : int
        Number N of clients.
    hosts : int or sequence of int
        Number P of hosts; or the number of processes of each of them, among which it deals its
        clients out in turn. There are at least as many clients as processes.
    within : sequence of (residue, modulus)
        What is assigned: all ids, or the classes that such a call gave to a host with P processes.

    Returns
    -------
    list of P lists of (residue, modulus)
        Every id is in exactly one class, ids from N on included: the server's own rows are
        evaluated in pieces, of which there may be more than N. Sibling classes of one host are
        merged.

    Examples
    --------
    >>> classes(32, 4)
    [[(0, 4)], [(2, 4)], [(1, 4)], [(3, 4)]]
    >>> classes(32, 2, within=[(2, 4)])
    [[(2, 8)], [(6, 8)]]
    """
    sizes = [1] * hosts if isinstance(hosts, int) else list(hosts)
    fine = max(modulus for _, modulus in within)
    total = sum(len(range(residue, clients, modulus)) for residue, modulus in within)
    while len(order := _sibling_order(fine, within)) < min(total, 16 * sum(sizes)):
        fine *= 2
    counts = np.maximum(0, (clients - order + fine - 1) // fine)
    occupied = np.flatnonzero(counts)
    owner = np.zeros(len(order), dtype=np.int64)
    owner[occupied] = _assigned(counts[occupied], sizes)
    # those without clients go to the host of the class before, which is their sibling
    before = np.maximum.accumulate(np.where(counts > 0, np.arange(len(order)), 0))
    return _owned(order, owner[before], fine, len(sizes))


SLACK = 1.1
"""Clients of the busiest process over the mean that are good enough."""


def balanced(
    ids: Ints, hosts: int | Sequence[int], within: Sequence[Class] = EVERY
) -> list[list[Class]]:
    """Assign residue classes to hosts so that each gets about equally many of these clients.

    The classes are as coarse as `SLACK` allows, since each is a sum to be transferred.

    Parameters
    ----------
    ids : (K,) array of int
        Clients of one Ask, K >= 1.
    hosts : int or sequence of int
        Number P of hosts, or how many processes each of them has.
    within : sequence of (residue, modulus)
        Classes that the clients belong to, which are assigned.

    Returns
    -------
    list of P lists of (residue, modulus)
        As `classes` returns them.

    Examples
    --------
    Even ids alone would all belong to one of two hosts; a quarter of all ids is half of them:

    >>> balanced(np.array([0, 2, 4, 6]), 2)
    [[(0, 4)], [(1, 2), (2, 4)]]
    """
    sizes = [1] * hosts if isinstance(hosts, int) else list(hosts)
    fine = max(1 << (len(sizes) - 1).bit_length(), *(modulus for _, modulus in within))
    while True:
        order = _sibling_order(fine, within)
        counts = np.bincount(ids % fine, minlength=fine)[order]
        owner = _assigned(counts, sizes)
        loads = np.bincount(owner, counts, len(sizes)).tolist()
        enough = busiest(loads, sizes) <= SLACK
        if enough or len(order) >= 16 * sum(sizes):
            return _owned(order, owner, fine, len(sizes))
        fine *= 2


def busiest(loads: Sequence[float], sizes: Sequence[int]) -> float:
    """Return the load of a process of the busiest host over the mean of all processes.

    Parameters
    ----------
    loads : sequence of P numbers
        Of each host, one of them above 0.
    sizes : sequence of P int
        Processes of each host.
    """
    most = max(load / size for load, size in zip(loads, sizes, strict=True))
    return most * sum(sizes) / sum(loads)


def _sibling_order(fine: int, within: Sequence[Class]) -> Ints:
    """Return residues modulo `fine` so that those of every coarser class are neighbours."""
    return _ordered(fine, tuple(within))


@lru_cache(maxsize=64)
def _ordered(fine: int, within: tuple[Class, ...]) -> Ints:
    order = np.argsort(bit_reverse(np.arange(fine), fine.bit_length() - 1), kind="stable")
    if within == EVERY:
        return order
    inside = np.zeros(fine, dtype=np.bool_)
    for residue, modulus in within:
        inside[residue::modulus] = True
    return np.asarray(order[inside[order]])


def _assigned(counts: Ints, sizes: Sequence[int]) -> Ints:
    """Return the host of each class, given client counts in the order of `_sibling_order`."""
    middle = (np.cumsum(counts) - counts / 2) * sum(sizes)
    ends = np.cumsum(sizes) * counts.sum()
    return np.minimum(np.searchsorted(ends, middle, side="right"), len(sizes) - 1)


def _owned(order: Ints, owner: Ints, fine: int, hosts: int) -> list[list[Class]]:
    """Return the classes of each host."""
    return [_merged([(int(r), fine) for r in order[owner == h]]) for h in range(hosts)]


def _merged(owned: Iterable[Class]) -> list[Class]:
    """Replace sibling classes by their parent until none are left to merge."""
    merged = set(owned)
    for modulus in sorted({m for _, m in merged}, reverse=True):
        while modulus > 1:
            half = modulus // 2
            for residue in [r for r, m in merged if m == modulus and r < half]:
                if (residue + half, modulus) in merged:
                    merged -= {(residue, modulus), (residue + half, modulus)}
                    merged.add((residue, half))
            modulus = half
    return sorted(merged, key=lambda c: (c[1], c[0]))
