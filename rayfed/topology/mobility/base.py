"""Base class of mobility models: positions as a pure function of the seed and the time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias

import numpy as np

from rayfed.core.arrays import Floats
from rayfed.core.rng import Key

Area: TypeAlias = tuple[float, float]
"""Width and height in metres."""


class Tracks(Protocol):
    """The trajectories of all clients; may cache the last state, which does not change results."""

    def __call__(self, time_s: float) -> Floats:
        """Return the positions (N, 2) in metres at a virtual second."""


@dataclass(frozen=True, kw_only=True)
class Mobility:
    """Base of all mobility models."""

    name: ClassVar[str]
    moving: ClassVar[bool] = True

    def tracks(self, count: int, area: Area, key: Key) -> Tracks:
        """Return the trajectories of N = count clients in an area."""
        raise NotImplementedError


def scattered(count: int, area: Area, key: Key) -> Floats:
    """Return positions (N, 2) drawn uniformly from an area."""
    positions: Floats = key.sub("start").uniforms(np.arange(count), 2) * np.array(area)
    return positions
