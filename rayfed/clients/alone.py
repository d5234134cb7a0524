"""Losses that clients reach alone, each with a model trained on its own rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rayfed.clients.clients import Clients
from rayfed.core.arrays import Array, Floats, to_numpy


def loss_alone(clients: Clients, x0: Array, steps: int) -> Floats:
    """Return F_i (K,) at the models that so many local steps from x0, (p,) or (K, p), lead to.

    Draws and learning rates are those of a round before the first, so that it does not matter when
    this is asked.
    """
    before = replace(
        clients, steps=np.full_like(clients.steps, steps), round=1, draw=0, ask=0, state={}
    )
    return to_numpy(clients.value(before.solve(x0).x)).astype(np.float64)
