"""Delays: how many virtual seconds one local step takes, as a distribution with a known mean.

A delay never draws: it maps uniform numbers to seconds by its inverse CDF, so that the draw stays
keyed by client, round and Ask (see `rayfed.population`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rayfed.core.arrays import Floats


@dataclass(frozen=True, kw_only=True)
class Delay:
    """Base of all delays: the distribution of the seconds of one local step."""

    name: ClassVar[str]
    random: ClassVar[bool] = True
    """Whether `quantile` depends on u; where no client's delay does, nothing is drawn."""

    def quantile(self, u: Floats) -> Floats:
        """Return the seconds (K,) below which a step stays with probability u (K,) in (0, 1)."""
        raise NotImplementedError

    def mean(self) -> float:
        """Return the mean in seconds."""
        raise NotImplementedError
