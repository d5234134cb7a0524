"""Points that methods aim at, where that is not the minimum of F."""

from __future__ import annotations

import numpy as np

from rayfed.algorithms.base import Weights
from rayfed.engine.run import Run

_COUNTS = ("equally", "by size", "by size squared (by size in the draw and in the mean)")
_MEANS = ("the plain mean of the F_i", "the mean of the F_i by size", "sum_i n_i^2 F_i")


def aim(run: Run) -> str:
    """Return in one line how clients count otherwise than in F; empty if they do not.

    What a method does about clients that draw its model apart, and what a selection by losses
    does, is another matter.
    """
    power, in_f = _power(run, run.training.weights), _in_f(run)
    if power is None or power == in_f or _alike(run):
        return ""
    other: Weights = "uniform" if run.training.weights == "size" else "size"
    if _power(run, other) == in_f:
        way = f"give weights: {other} to minimise F"
    else:
        way = f"give problem.weighting: {'size' if power else 'uniform'} to make that F"
    return (
        f"what is minimised is {_MEANS[power]}, not F: updates weigh clients {_COUNTS[power]}, F "
        f"weighs them {_COUNTS[in_f]}; {way}"
    )


def _power(run: Run, weights: Weights) -> int | None:
    """Return how clients count in what is minimised, as `Algorithm.power` says."""
    algorithm, participation = run.training.algorithm, run.participation
    if algorithm.centralised:
        return None
    power = algorithm.power(weights, participation.select.size_weighted)
    if power is not None and participation.correct is not None:
        return min(power, 1)  # what the draw prefers is taken away again
    return power


def _in_f(run: Run) -> int:
    """Return the power of its size with which a client counts in F."""
    return int(run.training.problem.weighting == "size")


def _alike(run: Run) -> bool:
    """Whether all clients are of the same size; of very many, those that are evaluated."""
    shards = run.federation.views.training.shards
    return not shards.moves_sizes and not np.ptp(shards.mass(run.measuring.evaluated))
