"""Evenness of a quantity over clients."""

from __future__ import annotations

import math

import numpy as np

from rayfed.core.arrays import Floats


def evenness(accuracies: Floats) -> tuple[float, float, float]:
    """Return the evenness over clients: spread, worst decile and Jain's index.

    Parameters
    ----------
    accuracies : (K,) array of float
        NaN where a client has no rows to score.

    Returns
    -------
    tuple of float
        Standard deviation over clients; mean over the tenth of them with the lowest accuracies,
        rounded up; and (sum a)^2 / (K sum a^2), which is 1 where all are equal and 1/K where one
        has everything (Jain, Chiu, Hawe, "A quantitative measure of fairness", DEC-TR-301, 1984).

    Examples
    --------
    >>> evenness(np.array([1.0, 0.5, np.nan, 0.0]))[2]  # 1.5^2 / (3 * 1.25)
    0.6
    """
    known = np.sort(accuracies[~np.isnan(accuracies)])
    if not len(known):
        return math.nan, math.nan, math.nan
    squares = len(known) * float(np.sum(known * known))
    jain = float(np.sum(known)) ** 2 / squares if squares else 1.0
    worst = float(np.mean(known[: math.ceil(len(known) / 10)]))
    return float(np.std(known)), worst, jain
