"""Verdicts on algorithms from paired differences over seeds.

Runs of one seed share data, clients and draws, so algorithms are compared seed by seed (Student,
"The Probable Error of a Mean", Biometrika 1908). The best is chosen from the data, so the
correction of Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian Journal
of Statistics 1979, counts all pairs of algorithms: over the competitors of the best alone, 6 equal
algorithms with 20 seeds would differ in 10.6 % of the studies. Where a run never reached a target,
the sign test decides (Dixon, Mood, "The Statistical Sign Test", Journal of the American Statistical
Association 1946): such a run was later by an unknown time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, TypeAlias

import numpy as np

from rayfed.core.arrays import Floats

Word: TypeAlias = Literal["better", "better with every seed", "undecided", "equivalent"]
LEVEL = 0.05
"""The probability of a false verdict "better"."""
MARGIN = 0.01
"""The largest equivalent difference, relative to the best value."""
MOST_SEEDS = 1000
"""The most seeds that are suggested."""
_ROUNDING = 1e-9  # relative differences that other processors could make


@dataclass(frozen=True)
class Comparison:
    """The best algorithm against one other.

    Parameters
    ----------
    other : str
        The competitor.
    word : Word
        The verdict: the best is "better" if the 95 % interval of the mean difference, corrected for
        the number of algorithms, excludes zero; "better with every seed" if all signs agree but the
        interval does not exclude zero; "equivalent" if the interval lies within `MARGIN`. A
        difference of at most 1 / sqrt(6) of the resolution has no sign.
    difference : float
        Mean of the other's values less the best's, positive where the best is ahead; NaN where a
        run never reached the target.
    low, high : float
        95 % interval of the difference by Student's t, not corrected.
    p : float
        Two-sided p-value, corrected.
    seeds : int
        Seeds that both have.
    ahead : bool
        Whether the best is ahead, by the mean or, without one, with more of the seeds.
    needed : int or None
        About how many seeds would separate them, if mean and deviation of the differences stay as
        they are; None where they are separated, or `MOST_SEEDS` would not do.
    """

    other: str
    word: Word
    difference: float
    low: float
    high: float
    p: float
    seeds: int
    ahead: bool = False
    needed: int | None = None


@dataclass(frozen=True)
class Verdict:
    """The best of some algorithms, against every other.

    Parameters
    ----------
    best : str
        The algorithm with the largest share of finite values, and of several the one with their
        best mean.
    comparisons : tuple of Comparison
        In the order of the values.
    """

    best: str
    comparisons: tuple[Comparison, ...]

    @property
    def level(self) -> tuple[str, ...]:
        """The best, and the algorithms that it is not better than."""
        clear = ("better", "better with every seed")
        return (self.best, *(c.other for c in self.comparisons if c.word not in clear))

    @property
    def clear(self) -> bool:
        """Whether the best is better than every other, and there is another."""
        return bool(self.comparisons) and all(c.word == "better" for c in self.comparisons)


def verdict(
    values: Mapping[str, Mapping[int, float]],
    higher: bool = False,
    best: str | None = None,
    resolution: float = 0.0,
    scale: float | None = None,
) -> Verdict | None:
    """Return the best algorithm, with its comparison to every other.

    Parameters
    ----------
    values : mapping of str to mapping of int to float
        A value of each seed by algorithm; infinite for a target that was never reached, NaN for a
        run without a value.
    higher : bool
        Whether higher values are better.
    best : str, optional
        The algorithm that is compared with the others; the one with the best mean if None.
    resolution : float
        Resolution of the values, such as the interval of evaluations. Differences of values that
        are rounded to it deviate by at least 1 / sqrt(6) of it.
    scale : float, optional
        What `MARGIN` is a share of: 1 for logarithms; the mean size of the best values if None.

    Returns
    -------
    Verdict or None
        None if no algorithm has a finite value.
    """
    signed = {
        name: {seed: -value if higher else value for seed, value in of.items() if value == value}
        for name, of in values.items()
    }
    known = {name: np.array(list(of.values())) for name, of in signed.items() if of}
    if not any(np.isfinite(found).any() for found in known.values()):
        return None
    if best is None:
        best = min(known, key=lambda name: place(known[name]))
    others = [name for name in signed if name != best]
    found = [_compared(signed[best], signed[name], name, resolution, scale) for name in others]
    return Verdict(best, tuple(_corrected(found, len(signed))))


def place(values: Floats) -> tuple[float, float]:
    """Return a key that is least for the best values (n,), of which infinite ones are the worst.

    A seed that is missing is no worse than the others.
    """
    finite = values[np.isfinite(values)]
    if not len(finite):
        return 1.0, math.inf
    return 1 - len(finite) / len(values), float(finite.mean())


def critical(count: int, seeds: int) -> list[dict[str, float]]:
    """Return the limits at which the best of some algorithms is better than each other one.

    Parameters
    ----------
    count : int
        Number of algorithms.
    seeds : int
        Number of paired differences, at least 2.

    Returns
    -------
    list of dict
        Of each step of Holm's correction the value of ``t`` that a difference must exceed, and the
        p-value ``p`` that a sign test must not; for the smallest p-value, the second smallest, and
        so on.

    Examples
    --------
    >>> [round(limit["t"], 3) for limit in critical(2, 3)]
    [4.303]
    """
    from scipy.special import stdtrit  # imported late, as everywhere here

    pairs = count * (count - 1) // 2
    levels = [LEVEL / (pairs - step) for step in range(count - 1)]
    return [{"t": float(stdtrit(seeds - 1, 1 - p / 2)), "p": p} for p in levels]


def _compared(
    best: Mapping[int, float],
    other: Mapping[int, float],
    name: str,
    resolution: float,
    scale: float | None,
) -> Comparison:
    """Return the comparison of two algorithms on the seeds that both have, without correction."""
    seeds = [seed for seed in best if seed in other]
    pair = np.array([[other[seed], best[seed]] for seed in seeds]).reshape(-1, 2)
    with np.errstate(invalid="ignore"):
        d = np.where(pair[:, 0] == pair[:, 1], 0.0, pair[:, 0] - pair[:, 1])
    n, nan, least = len(d), math.nan, resolution / math.sqrt(6)
    rounded = np.abs(d) <= _ROUNDING * np.abs(pair).max(axis=1, initial=0.0)
    d = np.where(rounded & np.isfinite(d), 0.0, d)
    word: Word = "better with every seed" if n > 1 and (d > least).all() else "undecided"
    if not np.isfinite(pair).all():
        wins, losses = int((d > least).sum()), int((d < -least).sum())
        if not d.any():
            word = "equivalent"
        return Comparison(name, word, nan, nan, nan, _sign_test(wins, losses), n, wins > losses)
    mean = float(d.mean()) if n else nan
    if n < 2:
        return Comparison(name, word, mean, -math.inf, math.inf, 1.0, n)
    deviation = max(float(d.std(ddof=1)), least)
    half, p = _interval(mean, deviation, n)
    low, high = mean - half, mean + half
    if scale is None:
        scale = float(np.abs(pair[:, 1]).mean())
    if not d.any() or (low <= 0 and max(-low, high) <= MARGIN * scale):
        word = "equivalent"
    return Comparison(name, word, mean, low, high, p, n, mean > 0)


def _interval(mean: float, deviation: float, n: int) -> tuple[float, float]:
    """Return half the 95 % interval of the mean of n differences, and the p-value of zero."""
    from scipy.special import stdtr, stdtrit  # not scipy.stats, which takes a third of a second

    error = deviation / math.sqrt(n)
    if error == 0:
        return 0.0, 0.0 if mean else 1.0
    quantile = _quantiles()[n - 2] if n <= MOST_SEEDS else stdtrit(n - 1, 1 - LEVEL / 2)
    half = float(quantile) * error
    return half, float(2 * stdtr(n - 1, -abs(mean) / error))


def _sign_test(wins: int, losses: int) -> float:
    """Return the two-sided p-value of so many positive and negative differences."""
    from scipy.special import bdtr  # imported late, as everywhere here

    return min(1.0, 2 * float(bdtr(min(wins, losses), wins + losses, 0.5)))


def _needed(one: Comparison, pairs: int) -> int | None:
    """Return the fewest seeds with which such differences would be better in one of some pairs.

    None if the best is behind.
    """
    if not (one.ahead and 2 <= one.seeds <= MOST_SEEDS and math.isfinite(one.difference)):
        return None
    deviation = (one.high - one.low) / 2 / _quantiles()[one.seeds - 2] * math.sqrt(one.seeds)
    counts = np.arange(2, MOST_SEEDS + 1)
    enough = _quantiles(pairs)[counts - 2] * deviation / np.sqrt(counts) < abs(one.difference)
    return int(counts[enough.argmax()]) if enough.any() else None


@cache
def _quantiles(pairs: int = 1) -> Floats:
    """Return the t-quantiles of corrected 95 % intervals for 2, 3, ..., `MOST_SEEDS` seeds."""
    from scipy.special import stdtrit

    return np.asarray(stdtrit(np.arange(1, MOST_SEEDS), 1 - LEVEL / pairs / 2))


def _corrected(found: list[Comparison], count: int) -> list[Comparison]:
    """Return comparisons with p-values corrected for all pairs of so many algorithms."""
    pairs, worst, out = count * (count - 1) // 2, 0.0, list(found)
    for rank, k in enumerate(sorted(range(len(found)), key=lambda k: found[k].p)):
        one = found[k]
        worst = max(worst, min(1.0, one.p * (pairs - rank)))
        decided = worst <= LEVEL and one.ahead and one.word != "equivalent"
        word = "better" if decided else one.word
        needed = None if word in ("better", "equivalent") else _needed(one, pairs - rank)
        out[k] = replace(one, word=word, p=worst, needed=needed)
    return out
