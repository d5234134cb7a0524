"""Forecasts of waiting: the clock jumps from change to change, and some studies never get there."""

from __future__ import annotations

import math

import numpy as np

from rayfed.core.arrays import Ints
from rayfed.core.errors import ScenarioError
from rayfed.engine.clock import MOST_BREAKS
from rayfed.engine.run import Run
from rayfed.engine.step_counter import StepCounter
from rayfed.population import Population

MOST_LOOKS = 10**6
"""Looks at the clients that a round may need until enough are there, on average."""
_CLIENTS, _CHANGES = 4, 16  # that are looked at to know how long clients stay


def check_waiting(run: Run) -> None:
    """Refuse rounds that wait, look after look, for clients who are hardly ever there at once.

    Raises
    ------
    ScenarioError
        If enough clients are there at less than one look in `MOST_LOOKS`.
    """
    from scipy.special import bdtrc  # imported late, as everywhere

    participation, population = run.participation, run.federation.population
    if participation.patience_s is not None or not population.independent:
        return
    chances = population.chance(run.measuring.evaluated, 0.0, 1)
    if chances is None or not chances.any():  # a round without anybody passes
        return
    wanted = participation.minimum if participation.if_fewer == "wait" else 1
    likely = float(bdtrc(wanted - 1, population.count, float(chances.mean())))
    if likely * MOST_LOOKS < 1:
        looks = f"{1 / likely:.3g}" if likely else "more than 1e+300"
        text = f"{wanted} of {population.count:,} clients are there at one look in {looks}"
        remedy = "be there more often, lower participation.minimum, or set patience_s"
        raise ScenarioError("clients.availability", f"{text}, and rounds wait for that; {remedy}")


def check_breaks(run: Run) -> None:
    """Refuse work that stands still so often that every client is given up.

    Raises
    ------
    ScenarioError
        If even the quickest of some clients goes away more than `MOST_BREAKS` times in a round.
    """
    if run.participation.interrupted != "resume" or run.training.algorithm.centralised:
        return
    population, ids = run.federation.population, run.measuring.evaluated[:_CLIENTS]
    pace = population.mean_seconds_per_step(ids, StepCounter(run).rows(ids))
    sizes = run.federation.views.training.shards.sizes(ids)
    work_s = float(np.min(run.training.solvers[0].step_counts(sizes, pace) * pace))
    stay_s = _stay_s(population, ids)
    if work_s > MOST_BREAKS * stay_s:
        text = f"found resume; clients stay {stay_s:.3g} s and work {work_s:.3g} s"
        remedy = "use drop, shorter work or longer stays"
        reason = f"after {MOST_BREAKS:,} breaks they are given up"
        raise ScenarioError("participation.interrupted", f"{text}, {reason}; {remedy}")


def _stay_s(population: Population, ids: Ints) -> float:
    """Return how many seconds clients are there at a stretch, on average; inf if for ever."""
    stays = []
    for client in ids[:, None]:
        now = 0.0
        for _ in range(_CHANGES):
            there = bool(population.available(client, now, 1)[0])
            later = float(population.next_change(client, now)[0])
            if there:
                stays.append(later - now)
            if not math.isfinite(later):
                break
            now = later
    return float(np.mean(stays)) if stays else math.inf
