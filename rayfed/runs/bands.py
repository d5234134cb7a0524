"""Bands of clients by speed, for the summary of a run that goes on."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from rayfed.core.arrays import Bools, Floats, Ints
from rayfed.core.summary import Ranking
from rayfed.engine.clock import StepCounter
from rayfed.engine.run import Run

_MOST = 1024
"""Clients that others are ranked among; of more, so many with evenly spaced ids."""


def bands_of(run: Run) -> Callable[[Ints], Ints]:
    """Return what says to which band of equal speed rank clients belong."""
    clients = run.federation.clients

    def known(ids: Ints) -> tuple[Bools, Floats, Ints]:
        rows = None if run.training.algorithm.centralised else StepCounter(run).rows(ids)
        return clients.straggles(ids), clients.mean_seconds_per_step(ids, rows), ids

    @cache
    def ranking() -> Ranking:
        count = min(clients.count, _MOST)
        return Ranking(*known(np.linspace(0, clients.count - 1, count).astype(np.int64)))

    return lambda ids: ranking().of(*known(ids))
