"""Parts of the population: tiers by speed, clients of edge servers."""

from __future__ import annotations

import numpy as np

from rayfed.core.arrays import Ints
from rayfed.core.errors import ScenarioError


def parts(given: int | tuple[int, ...], order: Ints, word: str) -> tuple[int, ...]:
    """Return the part (N,) of each client, from 0.

    Parameters
    ----------
    given : int or tuple of int
        How many, equally large but for a remainder and at most one for each client; or the part of
        each client.
    order : (N,) array of int
        All ids, in the order in which they fill parts.
    word : str
        Name of a part; the setting is its plural.

    Raises
    ------
    ScenarioError
        If there is not one for each client, or a part is empty; the place is the setting.

    Examples
    --------
    >>> parts(2, np.array([2, 0, 1]), "tier")
    (0, 1, 0)
    """
    count = len(order)
    if isinstance(given, int):
        part = np.empty(count, dtype=np.int64)
        for k, ids in enumerate(np.array_split(order, min(given, count))):
            part[ids] = k
        return tuple(part.tolist())
    if len(given) != count:
        text = f"found {len(given)} {word}s for {count} clients; list one for each"
        raise ScenarioError(f"{word}s", text)
    known = np.unique(given)
    if known[-1] >= len(known):
        empty = int(np.flatnonzero(known != np.arange(len(known)))[0])
        raise ScenarioError(f"{word}s", f"{word} {empty} is empty; count them from 0 without gaps")
    return given
