"""From works that were computed apart to the reply of an update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rayfed.clients.request import Request
from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.tree import Sums, add, tree_sum
from rayfed.executors.base import Gathered
from rayfed.messages import Reply, State


@dataclass(frozen=True)
class Part:
    """The answer to some works of an update, each of another client.

    Parameters
    ----------
    ids, steps, staleness : (K,) array of int
    raw, weights : (K,) array of float
        The weights without discounts, and with them.
    gathered : Gathered
        Sums with the discounts.
    seconds : (K,) array of float
        Virtual seconds that each took; empty where nobody asks.
    request : Request, optional
        What was asked, where all of it was one request.
    """

    ids: Ints
    steps: Ints
    staleness: Ints
    raw: Floats
    weights: Floats
    gathered: Gathered
    seconds: Floats = field(default_factory=lambda: np.empty(0))
    request: Request | None = None


def reply_of_parts(
    parts: Sequence[Part],
    up: Mapping[str, int],
    population: int,
    round_number: int,
    sent: State,
) -> Reply:
    """Return the reply of an update: discounted sums, divided by the weights without discounts.

    Within a part the sum has its fixed shape over the clients' ids; the parts are added in their
    order, which the schedule alone decides.

    Parameters
    ----------
    parts : sequence of Part
        At least one.
    up : mapping of str to int
        What clients upload.
    population : int
        Number N of clients.
    round_number : int
        Number of the round or update, from 1, by which schedules go.
    sent : mapping of str to array
        What all clients downloaded; empty if they got different versions.
    """
    sums: Sums = {}
    for part in parts:
        sums = add(sums, _sums(part, up)) if sums else _sums(part, up)
    raw = _together([part.raw for part in parts])
    total = float(raw.sum())
    mean: dict[str, Any] = {name: rows / rows.dtype.type(total) for name, rows in sums.items()}
    each = {
        name: _together([part.gathered.each[name] for part in parts])
        for name in parts[0].gathered.each
    }
    ids, steps, staleness = (
        _together([getattr(part, name) for part in parts]) for name in ("ids", "steps", "staleness")
    )
    return Reply(
        ids, raw, mean, each, steps, population, round=round_number, staleness=staleness, sent=sent
    )


def _together(arrays: Sequence[Array]) -> Array:
    """Return arrays (K, ...) one after the other."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _sums(part: Part, up: Mapping[str, int]) -> dict[str, Array]:
    """Return the sums of the vectors and of the scalars that are uploaded."""
    sums = dict(part.gathered.sums)
    for name, rows in part.gathered.each.items():
        if rows.ndim == 1 and name in up:
            sums[name] = tree_sum(part.ids, rows * part.weights)
    return sums
