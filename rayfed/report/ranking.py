"""Rankings of algorithms by their last values or by their costs to a target, with verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pandas as pd

from rayfed.core.columns import Column
from rayfed.report.read.curves import History, before, crossing, ends_by_seed, history, keeping
from rayfed.report.read.results import Results
from rayfed.report.verdicts import Verdict, place, verdict

COSTS = {
    "rounds_to_target": "round",
    "time_to_target_s": "time_s",
    "bytes_to_target": "bytes",
    "bytes_up_to_target": "bytes_up",
    "updates_to_target": "updates",
    "energy_to_target_j": "energy_j",
}
"""The costs of a run until it reaches the target, and their clocks in `curves.history`."""
WITHIN = {"rounds_to_target_within": "round", "time_to_target_within_s": "time_s"}
"""The resolution of these costs: the distance to the evaluated row before."""
TO_KEEP = {"rounds_to_keep": "round", "time_to_keep_s": "time_s"}
"""The costs until the target is kept up to the end."""


@dataclass(frozen=True)
class End:
    """The values of an algorithm that are ranked, one for each seed.

    Parameters
    ----------
    values : mapping of int to float
        By seed; infinite where a run did not reach the target.
    runs : bool
        Whether a run of it is unfinished, so that the value may change.
    competes : bool
        Whether it is ranked. Baselines, failed and unfinished runs are not.
    """

    values: Mapping[int, float]
    runs: bool
    competes: bool

    @cached_property
    def mean(self) -> float:
        """The mean over seeds, NaN if there is none."""
        return float(np.mean([*self.values.values()])) if self.values else np.nan

    @cached_property
    def sd(self) -> float:
        """The sample standard deviation over seeds, NaN if there are fewer than two."""
        with np.errstate(over="ignore"):  # diverged runs
            return (
                float(np.std([*self.values.values()], ddof=1)) if len(self.values) > 1 else np.nan
            )


@dataclass(frozen=True)
class Ranking:
    """Algorithms in the order of their values, and the verdict on the best one.

    Parameters
    ----------
    ends : mapping of str to End
        The values of each algorithm by name.
    higher : bool or None
        Whether higher values are better; None if neither end is.
    resolution : float
        See `verdicts.verdict`.
    """

    ends: Mapping[str, End]
    higher: bool | None
    resolution: float = 0.0

    @classmethod
    def of_finals(cls, results: Results, column: str, names: Iterable[str]) -> Ranking:
        """Rank algorithms by the last values of a column of the rounds."""
        ends = {}
        for name in names:
            values = {} if name in results.failed else ends_by_seed(results.usable(name), column)
            runs = unfinished(results, name)
            ends[name] = End(values, runs, bool(values) and not (runs or name in results.baselines))
        better = results.column(column).better
        return cls(ends, None if better is None else better == "higher")

    @classmethod
    def of_costs(cls, results: Results, rows: pd.DataFrame) -> dict[str, Ranking]:
        """Rank algorithms by each of `COSTS` and `TO_KEEP` that is recorded.

        Costs have no order if one is zero, as the target is reached at the start.

        Parameters
        ----------
        results : Results
            A result folder.
        rows : DataFrame
            Rows of a `tables.summary` with one target.
        """
        rows = rows[rows["counted"] > 0].set_index("name")
        asked = zip(rows.index, rows["target_column"], rows["target"], strict=True)
        found = {name: costs(results, name, y, target) for name, y, target in asked}
        known = [cost for cost in (*COSTS, *TO_KEEP) if cost in rows]
        return {cost: cls._of_cost(results, rows, found, cost) for cost in known}

    @classmethod
    def _of_cost(
        cls, results: Results, rows: pd.DataFrame, found: Mapping[str, pd.DataFrame], cost: str
    ) -> Ranking:
        ends = {}
        for name, each in found.items():
            values = dict(zip(each.index, each[cost].fillna(np.inf), strict=True))
            runs = unfinished(results, name) and np.inf in values.values()
            out = runs or rows["baseline"][name] or name in results.failed
            ends[name] = End(values, runs, not out)
        free = any(end.mean == 0 for end in ends.values() if end.competes)
        compared = rows.loc[[name for name, end in ends.items() if end.competes]]
        share = compared["rounds_to_target_within"] / compared["rounds_to_target"]
        resolution = float(np.nan_to_num((share * compared[cost]).max()))
        return cls(ends, None if free else False, resolution)

    @cached_property
    def ranking(self) -> tuple[str, ...]:
        """The algorithms that compete, the best first; those that some seeds lack come last."""
        sign = -1.0 if self.higher else 1.0
        known = {
            n: np.array([*end.values.values()]) for n, end in self.ends.items() if end.competes
        }
        return tuple(sorted(known, key=lambda name: place(sign * known[name])))

    @cached_property
    def verdict(self) -> Verdict | None:
        """The verdict on the best; None if fewer than two compete, or neither end is best."""
        if self.higher is None or len(self.ranking) < 2:
            return None
        values = {name: self.ends[name].values for name in self.ranking}
        return verdict(values, self.higher, resolution=self.resolution)

    @property
    def best(self) -> str | None:
        """The algorithm that is better than all others; None if there is none."""
        return self.verdict.best if self.verdict is not None and self.verdict.clear else None


def unfinished(results: Results, name: str) -> bool:
    """Return whether a run of an algorithm is unfinished."""
    return any(run.status == "running" for run in results.of(name))


def costs(results: Results, name: str, y: str, target: float | None) -> pd.DataFrame:
    """Return the costs of each seed of an algorithm to a target.

    Parameters
    ----------
    results : Results
        A result folder.
    name : str
        The algorithm.
    y : str
        The column of the target.
    target : float or None
        The target; None or NaN if there is none.

    Returns
    -------
    DataFrame
        Indexed by seed, with the columns `COSTS`, `TO_KEEP` and `WITHIN`; NaN if not reached.
    """
    column, runs = results.column(y), results.usable(name)
    key = ("costs", y, column.better, target)
    found = [run.cached(key, partial(costs_of, history(run), column, target)) for run in runs]
    columns, seeds = [*COSTS, *TO_KEEP, *WITHIN], [run.seed for run in runs]
    return pd.DataFrame(found, seeds, columns, dtype=float)


def costs_of(frame: History, y: Column, target: float | None) -> dict[str, float]:
    """Return `COSTS`, `WITHIN` and `TO_KEEP` of one run's `curves.history`, NaN if not reached."""
    at, since = crossing(frame, y, target), keeping(frame, y, target)
    found = _clocks(frame, COSTS | WITHIN, at) | _clocks(frame, TO_KEEP, since)
    if at is not None:
        earlier = _clocks(frame, WITHIN, before(frame, y, at))
        found |= {name: found[name] - earlier[name] for name in WITHIN}
    return found


def _clocks(frame: History, names: Mapping[str, str], place: int | None) -> dict[str, float]:
    return {
        name: np.nan if place is None or clock not in frame else float(frame[clock][place])
        for name, clock in names.items()
    }
