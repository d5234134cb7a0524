"""Bernoulli availability: independent draws for every client and period."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Gt, Le

from rayfed.core.arrays import Bools, Floats, Ints
from rayfed.core.rng import Key
from rayfed.population.availability.base import Availability, Need, PopulationInfo, Times, period
from rayfed.population.availability.chance import Chance

_BLOCK = 16  # periods drawn together
_HORIZON = 4096  # blocks that a search for the next change looks ahead


@dataclass(frozen=True, kw_only=True)
class Bernoulli(Availability):
    """Each client is available with probability p, independently of the others.

    Parameters
    ----------
    p : float or mapping
        Probability of being available, for all clients; or what it goes by,
        ``{by: rows, bias: 0.8}``. By ``rows``, clients with many rows are there most often:
        ``(n / max n)^bias``; by ``few-rows`` those with few: ``(min n / n)^bias``. By
        ``lowest-label`` those without the low labels, ``1 - bias + bias l / (C - 1)`` with the
        lowest label l of C; by ``labels`` those with many: ``1 - bias + bias k / C`` with k
        labels. By ``label-turns`` a client is there for sure while the phase of a cycle lies
        between its lowest and its highest label, else with probability ``1 - bias``. By
        ``lognormal`` it is random: a lognormal number with sigma ``-log(1 - bias)``, over the
        largest of all. ``wave: true`` multiplies all by ``0.5 + 0.4 sin(2 pi t / cycle)``, with t
        the round from 0; ``cycle`` is 24 rounds, or periods.
    period_s : float, optional
        Virtual seconds between draws; every round if None.
    """

    name: ClassVar[str] = "bernoulli"

    p: Annotated[float, Ge(0), Le(1)] | Chance = 0.5
    period_s: Annotated[float, Gt(0)] | None = None

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
        """What the probabilities go by."""
        return self.p.needs if isinstance(self.p, Chance) else frozenset()

    def available(self, ids: Ints, t: float, round: int, population: PopulationInfo) -> Bools:
        """Return the draw (K,) of this round, or of this period."""
        if self.period_s is None:
            p = self._table(ids, population)
            u = Key(population.seed, "availability").uniforms(ids, round=round)
            return u < p[:, (round - 1) % p.shape[1]]
        block, index = divmod(period(t, self.period_s), _BLOCK)
        return self._block(ids, block, self._table(ids, population), population)[:, index]

    def next_change(self, ids: Ints, t: Times, population: PopulationInfo) -> Floats:
        """Return the start (K,) of the first period whose draw differs from that at t.

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
        p = self._table(np.asarray(ids), population)
        number = round - 1 if self.period_s is None else period(t, self.period_s)
        return np.asarray(p[:, number % p.shape[1]])

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
