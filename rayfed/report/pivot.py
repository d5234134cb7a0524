"""Algorithms by case: final values with verdicts, and mean ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import numpy as np
import pandas as pd

from rayfed.report.ranking import Ranking
from rayfed.report.read.curves import first_column, leaders
from rayfed.report.read.results import Results, per_results
from rayfed.report.tables import NEVER, TextColumn, comparison, text_width, with_spread

MOST_ACROSS = 6
"""The most cases that are columns of the table; more are rows."""
FEWEST = 5
"""The fewest cases over which ranks are compared."""
SIGNIFICANCE = 0.05
SO_FAR = " so far"
"""Ending of values of algorithms with unfinished runs."""


@per_results
def standings(results: Results, column: str) -> dict[str, Ranking]:
    """Rank algorithms by their last values in each case in which any has a value.

    Where many settings of an algorithm were tried, the best of them counts.
    """
    found = {}
    for case, part in results.cases.items():
        ranked = _finals(part, column)
        ends = {part.families.get(name, name): end for name, end in ranked.ends.items()}
        if any(end.values for end in ends.values()):
            found[case] = replace(ranked, ends=ends)
    return found


@per_results
def _finals(results: Results, column: str) -> Ranking:
    return Ranking.of_finals(results, column, leaders(results, column))


def pivot(results: Results, column: str) -> list[TextColumn]:
    """Return last values as a table of algorithms by cases; of more than 6 cases by algorithms.

    The best value of a case has ``best`` where it is better than all others, see `verdicts`.
    Algorithms with unfinished runs do not compete.
    """
    found = standings(results, column)
    names = list(dict.fromkeys(name for one in found.values() for name in one.ends))
    cells = {(name, case): _cell(one, name) for case, one in found.items() for name in names}
    rows, heads = (names, list(found)) if len(found) <= MOST_ACROSS else (list(found), names)
    across, title = rows is names, f"final {results.column(column).title}"
    places = tuple(map(float, range(len(rows))))
    made = [TextColumn(title, tuple(rows), places, (False,) * len(rows))]
    for head in heads:
        held = [cells[(row, head) if across else (head, row)] for row in rows]
        texts, values, best, spreads = zip(*held, strict=True)
        made.append(TextColumn(head, texts, values, best, spreads=spreads))
    return made


def overview_table(results: Results, width: int | None = 80) -> pd.DataFrame:
    """Return the results as text: `tables.comparison`, or the `pivot` of cases.

    Deviations are left out where a line has too few characters.
    """
    if not results.cases:
        return comparison(results, width=width)
    columns = pivot(results, first_column(results))
    full = pd.DataFrame({column.title: column.texts for column in columns})
    fits = width is None or text_width(full) <= width
    return full if fits else full.map(lambda text: text.partition(" ± ")[0])


def _cell(ranking: Ranking, name: str) -> tuple[str, float, bool, float]:
    if name not in ranking.ends:
        return NEVER, np.nan, False, np.nan
    end = ranking.ends[name]
    text = with_spread(end.mean, end.sd) + (SO_FAR if end.runs else "")
    return text, end.mean, ranking.best == name, end.sd


@dataclass(frozen=True)
class Ranks:
    """Mean ranks of algorithms over cases, and their critical difference.

    J. Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 7 (2006),
    section 3.2.2: Friedman's test, then Nemenyi's.

    Parameters
    ----------
    means : mapping of str to float
        The mean rank of each algorithm, the best (least) first; ties share their ranks.
    cases : int
    p : float
        p-value of Friedman's test that all algorithms are equal.
    critical : float
        The critical difference at 5 %: smaller differences are not significant.
    """

    means: Mapping[str, float]
    cases: int
    p: float
    critical: float

    @classmethod
    def of(cls, values: pd.DataFrame, higher: bool) -> Ranks:
        """Compare values, a row for each case and a column for each of three or more algorithms."""
        from scipy.special import chdtrc  # scipy.stats would take half a second and 47 MB

        count, k = values.shape
        ranked = values.rank(axis=1, ascending=not higher)
        means = ranked.mean().sort_values(kind="stable")
        apart = ranked.to_numpy() - (k + 1) / 2
        with np.errstate(invalid="ignore"):  # all are equal
            friedman = (k - 1) * (apart.sum(axis=0) ** 2).sum() / (apart**2).sum()
        p = chdtrc(k - 1, friedman)
        # Demšar's q is the studentized range, of infinitely many degrees of freedom, over sqrt(2).
        q = _studentized_range(k) / np.sqrt(2)
        critical = float(q * np.sqrt(k * (k + 1) / (6 * count)))
        named = {str(name): float(rank) for name, rank in means.items()}
        return cls(named, count, float(np.nan_to_num(p, nan=1.0)), critical)

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """The largest sets of two or more algorithms without a significant difference."""
        names, ranks = list(self.means), np.array([*self.means.values()])
        ends = np.searchsorted(ranks, ranks + self.critical, side="left")
        starts = [0, *(k for k, (one, other) in enumerate(pairwise(ends), 1) if other > one)]
        return [tuple(names[k : ends[k]]) for k in starts if ends[k] - k > 1]


@cache
def _studentized_range(k: int) -> float:
    """Return the quantile of the range of k standard normal numbers, by bisection.

    The least of them is z with the density k phi(z) (1 - Phi(z))^(k - 1).
    """
    from scipy.special import ndtr

    z, step = np.linspace(-9, 9, 1801, retstep=True)
    density = k * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    low, high = 0.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        below = step * (density * (ndtr(z + middle) - ndtr(z)) ** (k - 1)).sum()
        low, high = (middle, high) if below < 1 - SIGNIFICANCE else (low, middle)
    return middle


@per_results
def ranks(results: Results, column: str) -> Ranks | None:
    """Return the ranks of the algorithms that every case has.

    None if there are fewer than five cases or three algorithms, or neither end of the column is
    best.
    """
    found = standings(results, column)
    competing = [{n: one.ends[n].mean for n in one.ranking} for one in found.values()]
    if len(found) < FEWEST or results.column(column).better is None:
        return None
    values = pd.DataFrame(competing).dropna(axis=1)
    if values.shape[1] < 3:
        return None
    return Ranks.of(values, results.column(column).better == "higher")
