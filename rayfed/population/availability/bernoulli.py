"""Bernoulli availability: independent draws, by probabilities that may differ between clients."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt, Interval, Le

from rayfed.core.arrays import Bools, Floats, Ints
from rayfed.core.episodes import Episodes
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.population.availability.base import Availability, Need, PopulationInfo, Times, period

By = Literal["rows", "few-rows", "lowest-label", "labels", "label-turns", "lognormal"]
_AMPLITUDE, _LEVEL = 0.4, 0.5  # of the wave


@dataclass(frozen=True, kw_only=True)
class Chance:
    """Probabilities of being available that differ between clients, with a bias b.

    The modes are those of FLGo's simulator of heterogeneous systems (Wang, Fan, Wang, Wu, Peng,
    Zheng, "FLGo: A Fully Customizable Federated Learning Platform", 2023,
    https://arxiv.org/abs/2306.12079).

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
        """Needed properties of the clients' data."""
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


_BLOCK = 16  # periods drawn together
_HORIZON = 4096  # blocks that a search for the next change looks ahead


@dataclass(frozen=True, kw_only=True)
class Bernoulli(Availability, Episodes):
    """Each client is available with probability p, independently of the others.

    With episodes (`rayfed.core.episodes.Episodes`) that holds in their rounds, and in all others
    every client is available: ``{p: 0, start: 10, end: 14}`` is an outage.

    Parameters
    ----------
    p : float or mapping
        Probability of being available, for all clients; or what it goes by,
        ``{by: rows, bias: 0.8}``. By ``rows``, clients with many rows are available most often:
        ``(n / max n)^bias``; by ``few-rows`` those with few: ``(min n / n)^bias``. By
        ``lowest-label`` those without the low labels, ``1 - bias + bias l / (C - 1)`` with the
        lowest label l of C; by ``labels`` those with many: ``1 - bias + bias k / C`` with k
        labels. By ``label-turns`` a client is always available while the phase of a cycle lies
        between its lowest and its highest label, else with probability ``1 - bias``. By
        ``lognormal`` it is random: a lognormal number with sigma ``-log(1 - bias)``, over the
        largest of all. ``wave: true`` multiplies all by ``0.5 + 0.4 sin(2 pi t / cycle)``, with t
        the round from 0; ``cycle`` is 24 rounds, or periods.
    period_s : float, optional
        Virtual seconds between draws; every round if None.

    Raises
    ------
    ScenarioError
        If episodes of rounds are given with a period of seconds.
    """

    name: ClassVar[str] = "bernoulli"

    p: Annotated[float, Ge(0), Le(1)] | Chance = 0.5
    period_s: Annotated[float, Gt(0)] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.episodic and self.period_s is not None:
            text = f"found {self.period_s:g}, but start and end count rounds"
            raise ScenarioError("period_s", f"{text}; leave period_s out")

    @property
    def by_round(self) -> bool:
        """Whether every round is drawn anew."""
        return self.period_s is None

    @property
    def independent(self) -> bool:
        """Whether draws go by the clock."""
        return self.period_s is not None

    @property
    def needs(self) -> frozenset[Need]:
        """Needed properties for the probabilities."""
        return self.p.needs if isinstance(self.p, Chance) else frozenset()

    def available(self, ids: Ints, t: Times, round: int, population: PopulationInfo) -> Bools:
        """Return the draw (K,) of this round, or of this period."""
        if self.period_s is None:
            p = self._table(ids, population)
            u = Key(population.seed, "availability").uniforms(ids, round=round)
            drawn = u < p[:, (round - 1) % p.shape[1]]
            return drawn if self._holds(round) else np.ones_like(drawn)
        block, index = divmod(period(float(t), self.period_s), _BLOCK)
        return self._block(ids, block, self._table(ids, population), population)[:, index]

    def next_change(self, ids: Ints, t: Times, population: PopulationInfo) -> Floats:
        """Return the start (K,) of the first period with another draw than at t.

        The search looks 65,536 periods ahead; if nothing changes until then, the end of the
        search is returned.
        """
        ids = np.asarray(ids)
        if self.period_s is None:
            return super().next_change(ids, t, population)
        t = float(t)
        p, now = self._table(ids, population), period(t, self.period_s)
        first = now // _BLOCK
        changed = np.full(len(ids), float((first + _HORIZON) * _BLOCK))
        certain = (p == 0.0).all(axis=1) | (p == 1.0).all(axis=1)
        changed[certain] = np.inf
        status, pending = self.available(ids, t, 0, population), np.flatnonzero(~certain)
        for block in range(first, first + _HORIZON):
            if not len(pending):
                break
            drawn = self._block(ids[pending], block, p[pending], population)
            differs = drawn != status[pending, None]
            differs[:, : max(0, now - block * _BLOCK)] = False
            changes = differs.any(axis=1)
            changed[pending[changes]] = block * _BLOCK + differs[changes].argmax(axis=1)
            pending = pending[~changes]
        return np.asarray(changed * self.period_s)

    def chance(self, ids: Ints, t: float, round: int, population: PopulationInfo) -> Floats:
        """Return the probability (K,) of this round, or of this period, exactly."""
        if not self._holds(round):
            return np.ones(len(ids))
        p = self._table(np.asarray(ids), population)
        number = round - 1 if self.period_s is None else period(t, self.period_s)
        return np.asarray(p[:, number % p.shape[1]])

    def _holds(self, round: int) -> bool:
        """Whether clients are drawn in a round."""
        return not self.episodic or bool(self.active(round))

    def _table(self, ids: Ints, population: PopulationInfo) -> Floats:
        """Return the probabilities (K, T) in the rounds, or periods, of a cycle."""
        if isinstance(self.p, Chance):
            return self.p.table(ids, population)
        return np.full((len(ids), 1), self.p)

    def _block(self, ids: Ints, block: int, p: Floats, population: PopulationInfo) -> Bools:
        """Return the draws (K, _BLOCK) of one block of periods, by probabilities p (K, T)."""
        key = Key(population.seed, "availability/period")
        numbers = np.arange(block * _BLOCK, (block + 1) * _BLOCK)
        return key.uniforms(ids, _BLOCK, round=block) < p[:, numbers % p.shape[1]]
