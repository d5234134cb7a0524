"""Delays: virtual seconds of a local step, as a distribution with a known mean.

A distribution draws no random numbers itself: it maps uniform numbers, keyed by client, round and
Ask (see `rayfed.population.correlated`), to seconds by its inverse CDF.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Self

import numpy as np
from annotated_types import Gt, Interval

from rayfed.core.arrays import Floats, Ints
from rayfed.core.needs import refuse_renamed
from rayfed.core.rng import Draw
from rayfed.population import correlated


@dataclass(frozen=True, kw_only=True)
class Delay:
    """Base of all delays: the distribution of the seconds of one local step.

    Parameters
    ----------
    correlation : float
        How much of a client's draw stays from one round to the next, from 0 (drawn anew) to 1
        (drawn once): the correlation of the normal scores of its seconds, an AR(1) process.
    """

    name: ClassVar[str]
    random: ClassVar[bool] = True
    """Whether `quantile` depends on u; if it does for no client, no uniforms are drawn."""

    linked: ClassVar[bool] = False
    """Whether bandwidths come with it."""

    numbered: ClassVar[bool] = False
    """Whether seconds belong to numbered rounds, or to numbered tasks of each client."""

    correlation: Annotated[float, Interval(ge=0, le=1)] = 0.0

    def __init_subclass__(cls) -> None:
        refuse_renamed(cls, {"fixed_quantiles": "uniforms"})

    def quantile(self, u: Floats) -> Floats:
        """Return the quantiles (K,) of the step duration in seconds, for u (K,) in (0, 1)."""
        raise NotImplementedError

    def mean(self) -> float:
        """Return the mean in seconds."""
        raise NotImplementedError

    def step_seconds(self, ids: Ints, draw: Draw, ask: int, *, seed: int) -> Floats:
        """Return the seconds (K,) of one local step, drawn once per client and Ask.

        Parameters
        ----------
        ids : (K,) array of int
        draw : int or (K,) array of int
            The round, for all clients or for each, or the number of each client's task.
        ask : int
            Number of the Ask in it.
        seed : int
            Seed of the run.
        """
        return self.quantile(self.uniforms(ids, draw, ask, seed=seed))

    def means(self, ids: Ints, *, seed: int) -> Floats:
        """Return the mean seconds (K,) of clients over the rounds."""
        if self.correlation == 1.0:
            return self.step_seconds(ids, 0, 0, seed=seed)
        return np.full(len(ids), self.mean())

    def quick_seconds(self, ids: Ints, share: float, *, seed: int) -> Floats:
        """Return the seconds (K,) of clients that a share of their draws stays below."""
        if self.correlation == 1.0:
            return self.step_seconds(ids, 0, 0, seed=seed)
        return self.quantile(np.full(len(ids), share))

    def uniforms(self, ids: Ints, draw: Draw, ask: int, *, seed: int) -> Floats:
        """Return the uniform numbers (K,) of an Ask; their values do not matter if not `random`."""
        if not self.random:
            return np.empty(len(ids))
        return correlated.uniforms(seed, self.correlation, ids, draw, ask)

    @property
    def by_sample(self) -> bool:
        """Whether the seconds are those of one sample, so that a step takes them for each row."""
        return False

    def mbps(self, u: Floats) -> tuple[Floats, Floats]:
        """Return the bandwidths (K,) down and up in Mbit/s, infinite if a transfer takes no time.

        They are asked for if `linked`.
        """
        raise NotImplementedError

    def watts(self, u: Floats) -> Floats | None:
        """Return the power (K,) in watts while computing; None if it is not known."""
        return None

    def named(self, names: Sequence[str]) -> Self:
        """Return the delay of clients that the data name, empty if they do not.

        Raises
        ------
        ScenarioError
            If it is about clients of other names.
        """
        return self

    def check_clients(self, count: int) -> None:
        """Raise a `ScenarioError` if the delay is about clients that there are not."""
        return

    def check_members(self, ids: Ints) -> None:
        """Raise a `ScenarioError` if a `numbered` delay lacks one of its clients (K,)."""
        return

    def check(self) -> None:
        """Raise a `ScenarioError` if the delay cannot be used, such as for want of its file."""
        return


@dataclass(frozen=True, kw_only=True)
class DelayOfMean(Delay):
    """Base of random delays with a scale set by their mean.

    Parameters
    ----------
    mean_s : float
        Mean seconds of one local step.
    """

    mean_s: Annotated[float, Gt(0)] = 1.0

    def mean(self) -> float:
        """Return ``mean_s``."""
        return self.mean_s
