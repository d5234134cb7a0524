"""Delays: how many virtual seconds one local step takes, as a distribution with a known mean.

A delay draws no random numbers itself: it maps uniform numbers, keyed by client, round and Ask
(see `rayfed.population`), to seconds by its inverse CDF.
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
    """Whether `quantile` depends on u; if it does for no client, no uniforms are drawn."""

    def quantile(self, u: Floats) -> Floats:
        """Return the quantiles (K,) of the step duration in seconds, for u (K,) in (0, 1)."""
        raise NotImplementedError

    def mean(self) -> float:
        """Return the mean in seconds."""
        raise NotImplementedError
