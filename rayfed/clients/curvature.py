"""Curvature of the clients' objectives, which proofs of convergence ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rayfed.clients import Clients
from rayfed.core.arrays import Floats, Ints
from rayfed.solvers.sgd import SGD

if TYPE_CHECKING:
    from rayfed.datasets.shards import Shards
    from rayfed.problems.base import Batch
    from rayfed.problems.objective import Objective

_TOGETHER = 64  # clients whose rows are looked at together
_NUMBERS = 20_000_000  # of the rows that are looked at together, but for those of one client


def curvature(shards: Shards, objective: Objective) -> tuple[Floats, Floats] | None:
    """Return m and l (N,) with ``m_i I <= Hessian of F_i <= l_i I`` at every x.

    None where the problem knows no such bounds. All rows of all clients are read.
    """
    ids, low, high = [], [], []
    for stack in _stacks(shards):
        bounds = objective.problem.curvature(_batch(shards, objective, stack))
        if bounds is None:
            return None
        ids.append(stack)
        low.append(bounds[0].astype(np.float64))
        high.append(bounds[1].astype(np.float64))
    order = np.argsort(np.concatenate(ids))
    return np.concatenate(low)[order], np.concatenate(high)[order]


def smoothness(shards: Shards, objective: Objective) -> float | None:
    """Return the largest l_i of `curvature` by power iteration, never above it.

    None where the problem knows no such bounds. All rows of all clients are read.
    """
    largest = 0.0
    for stack in _stacks(shards):
        found = objective.problem.smoothness(_batch(shards, objective, stack))
        if found is None:
            return None
        largest = max(largest, float(found.max()))
    return largest


def _stacks(shards: Shards) -> list[Ints]:
    """Return all ids, in stacks of clients with the same padded width."""
    everyone = np.arange(shards.clients)
    widths = shards.widths(everyone)
    stacks = []
    for width in np.unique(widths):
        ids = everyone[widths == width]
        together = min(_TOGETHER, max(1, _NUMBERS // max(1, int(width) * shards.features)))
        stacks += [ids[first : first + together] for first in range(0, len(ids), together)]
    return stacks


def _batch(shards: Shards, objective: Objective, ids: Ints) -> Batch:
    """Return all training rows of some clients."""
    problem = objective.problem
    clients = Clients(
        problem=problem, objective=objective, shards=shards, solver=SGD(), ids=ids,
        sizes=shards.sizes(ids), steps=np.zeros_like(ids), seed=0, round=0, ask=0,
        p=problem.size(shards.features, shards.classes),
    )  # fmt: skip
    return clients.data
