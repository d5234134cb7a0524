"""Probabilities that each client is there: by its data, at random, by the time of day.

The modes are those of FLGo's simulator of heterogeneous systems (Wang, Fan, Wang, Wu, Peng, Zheng,
"FLGo: A Fully Customizable Federated Learning Platform", 2023, https://arxiv.org/abs/2306.12079).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Literal

import numpy as np
from annotated_types import Interval

from rayfed.core.arrays import Bools, Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.population.availability.base import Need, PopulationInfo

By = Literal["rows", "few-rows", "lowest-label", "labels", "label-turns", "lognormal"]
_AMPLITUDE, _LEVEL = 0.4, 0.5  # of the wave


@dataclass(frozen=True, kw_only=True)
class Chance:
    """Probabilities of being available that differ between clients, with a bias b.

    Parameters
    ----------
    by : str
        What the probability of a client goes by. ``rows``: its training rows, ``(n / max n)^b``.
        ``few-rows``: ``(min n / n)^b``. ``lowest-label``: its lowest label l of C,
        ``1 - b + b l / (C - 1)``. ``labels``: the number k of labels that it holds,
        ``1 - b + b k / C``. ``label-turns``: 1 while the phase of a cycle is between its lowest
        and its highest label, ``1 - b`` otherwise. ``lognormal``: a lognormal number with sigma
        ``-log(1 - b)``, over the largest of all clients.
    bias : float
        b, from 0 (everybody has probability 1) to 1, which ``lognormal`` does not reach.
    wave : bool
        Whether all probabilities are multiplied by ``0.5 + 0.4 sin(2 pi t / cycle)``, where t is
        the number of the round from 0.
    cycle : int
        Rounds of a cycle, of ``label-turns`` and of the wave; periods if Bernoulli has them.

    Raises
    ------
    ScenarioError
        If `bias` is 1 and `by` is ``lognormal``.
    """

    by: By
    bias: Annotated[float, Interval(ge=0, le=1)] = 0.5
    wave: bool = False
    cycle: Annotated[int, Interval(ge=1, le=10_000)] = 24

    def __post_init__(self) -> None:
        if self.by == "lognormal" and self.bias == 1.0:
            raise ScenarioError("bias", "found 1, which spreads without bound; give less")

    @property
    def needs(self) -> frozenset[Need]:
        """What must be known of the clients' data."""
        if self.by == "lognormal":
            return frozenset()
        return frozenset({"sizes"} if self.by in ("rows", "few-rows") else {"holds"})

    def table(self, ids: Ints, population: PopulationInfo) -> Floats:
        """Return the probabilities (K, T) in each round of a cycle; T is 1 if all are the same."""
        rule = _RULES[self.by]
        table = rule(np.asarray(ids), population, self.bias, self.cycle)
        if not self.wave:
            return table
        turn = 2.0 * math.pi * np.arange(self.cycle) / self.cycle
        return table * (_LEVEL + _AMPLITUDE * np.sin(turn))


def _rows(ids: Ints, population: PopulationInfo, bias: float, cycle: int) -> Floats:
    sizes = population.known_sizes
    return np.asarray((sizes[ids] / population.size_range[1]) ** bias)[:, None]


def _few_rows(ids: Ints, population: PopulationInfo, bias: float, cycle: int) -> Floats:
    sizes = population.known_sizes
    return np.asarray((population.size_range[0] / np.maximum(sizes[ids], 1)) ** bias)[:, None]


def _lowest(ids: Ints, population: PopulationInfo, bias: float, cycle: int) -> Floats:
    holds = population.known_holds
    lowest = holds[ids].argmax(axis=1) / max(1, holds.shape[1] - 1)
    return np.asarray(1.0 - bias + bias * lowest)[:, None]


def _labels(ids: Ints, population: PopulationInfo, bias: float, cycle: int) -> Floats:
    holds = population.known_holds
    share = np.count_nonzero(holds[ids], axis=1) / holds.shape[1]
    return np.asarray(1.0 - bias + bias * share)[:, None]


def _label_turns(ids: Ints, population: PopulationInfo, bias: float, cycle: int) -> Floats:
    holds: Bools = population.known_holds[ids]
    now = np.arange(cycle) * holds.shape[1] // cycle  # the label whose turn it is
    lowest = holds.argmax(axis=1)[:, None]
    highest = holds.shape[1] - 1 - holds[:, ::-1].argmax(axis=1)[:, None]
    turn = (lowest <= now) & (now <= highest)
    return np.where(turn, 1.0, 1.0 - bias)


def _lognormal(ids: Ints, population: PopulationInfo, bias: float, cycle: int) -> Floats:
    sigma = -math.log1p(-bias)
    normals = Key(population.seed, _LUCK).normals(ids)
    return np.asarray(np.exp(sigma * (normals - _largest(population.seed, population.count))))[
        :, None
    ]


@lru_cache(maxsize=64)
def _largest(seed: int, count: int) -> float:
    """Return the largest normal number of all clients."""
    return float(Key(seed, _LUCK).normals(np.arange(count)).max())


_LUCK = "availability/chance"
_RULES: dict[By, Callable[[Ints, PopulationInfo, float, int], Floats]] = {
    "rows": _rows,
    "few-rows": _few_rows,
    "lowest-label": _lowest,
    "labels": _labels,
    "label-turns": _label_turns,
    "lognormal": _lognormal,
}
