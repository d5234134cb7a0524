"""From what the hosts added up to what the server learns: sums are divided here, and only here."""

from __future__ import annotations

from typing import Any

import numpy as np

from rayfed.clients.request import GROUP, Request, group_name
from rayfed.core.arrays import Array, Floats
from rayfed.core.tree import tree_sum
from rayfed.executors.base import Gathered
from rayfed.messages import Groups, Reply


def reply_of(
    request: Request,
    gathered: Gathered,
    population: int,
    total: float | None = None,
    seconds: Floats | None = None,
) -> Reply:
    """Return the reply to a request: means of vectors, and scalars as they are.

    Parameters
    ----------
    population : int
        Number N of clients.
    total : float, optional
        What weighted sums are divided by; the sum of the weights if None.
    seconds : (K,) array of float, optional
        Virtual seconds from the Ask to each reply.
    """
    each, weights = gathered.each, request.weights
    total = float(weights.sum()) if total is None else total
    vectors = [name for name in request.up if name in gathered.sums]
    mean: dict[str, Any] = {
        name: _divided(request, name, gathered.sums[name], len(weights), total) for name in vectors
    }
    for name, rows in each.items():
        if rows.ndim == 1 and name in request.up and name != GROUP:
            mean[name] = tree_sum(request.ids, rows * weights) / total
    groups = _groups(request, gathered, vectors) if GROUP in request.up else Groups.nobody()
    return Reply(
        request.ids, weights, mean, each, request.steps, population, groups, request.round,
        seconds=np.empty(0) if seconds is None else seconds,
    )  # fmt: skip


def _groups(request: Request, gathered: Gathered, vectors: list[str]) -> Groups:
    """Return the means of the vectors, group by group."""
    labels, place = np.unique(gathered.each[GROUP], return_inverse=True)
    counts = np.bincount(place)
    weights = np.bincount(place, request.weights).astype(np.float64)
    mean = {
        name: np.stack(
            [
                _divided(request, name, gathered.sums[group_name(name, label)], count, weight)
                for label, count, weight in zip(
                    labels.tolist(), counts.tolist(), weights.tolist(), strict=True
                )
            ]
        )
        for name in vectors
    }
    return Groups(labels, counts, weights, mean)


def _divided(request: Request, name: str, rows: Array, count: int, weight: float) -> Array:
    """Divide by the number of clients or by their weights, which entered in the vectors' type.

    The sums are nobody else's: they are divided in place, unless they lie in Ray's object store.
    """
    by = rows.dtype.type(count if name in request.plain else weight)
    own = rows.flags.writeable and rows.dtype.kind == "f"
    divided: Array = np.divide(rows, by, out=rows if own else None)
    return divided
