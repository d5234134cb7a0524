"""The room that RWSADMM leaves between a client's model and the token."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rayfed.core.arrays import Array

if TYPE_CHECKING:
    from rayfed.clients import Clients


def widths(epsilon: float | tuple[float, ...], clients: Clients) -> Array:
    """Return epsilon of each client (K, 1), given one for all clients or one for each id."""
    dtype = clients.shards.dtype
    if isinstance(epsilon, tuple):
        return np.array(epsilon, dtype=dtype)[clients.ids][:, None]
    return np.full((len(clients.ids), 1), epsilon, dtype=dtype)


def pull(x: Array, z: Array, y: Array, room: Array, beta: float) -> Array:
    """Return S(z + beta (y - x)) (K, p), S the soft threshold at beta times the room (K, 1).

    It is minus the gradient in x of ``beta/2 dist(y - x + z / beta, [-room, room])^2``: the force
    with which the edge of the room pulls at x (K, p), 0 within it.
    """
    pulled = z + beta * (y - x)
    out: Array = np.sign(pulled) * np.maximum(np.abs(pulled) - beta * room, 0)
    return out
