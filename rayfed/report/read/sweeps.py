"""Sweeps over one or two numbers, and the results at every point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rayfed.report.read.curves import crossing, final, history, stopped_at
from rayfed.report.read.differences import own_facts, scenario_facts, unequal
from rayfed.report.read.results import Results, RunRecord
from rayfed.report.read.settings import short_keys

_LEAST = {1: 3, 2: 4}  # points below which a sweep by one key, or by two, is no sweep
_FILLED = 0.7  # share of the cells of a map that must have been run


@dataclass(frozen=True)
class SweptPoints:
    """Points of one algorithm, or of several that share the settings of a grid.

    Parameters
    ----------
    keys : tuple of str
        One or two dotted keys that hold numbers.
    points : DataFrame
        One row per point: ``series`` (the algorithm), ``name`` (as elsewhere on the page), and the
        values of the keys.
    """

    keys: tuple[str, ...]
    points: pd.DataFrame

    @property
    def series(self) -> tuple[str, ...]:
        """The algorithms, in their order."""
        return tuple(dict.fromkeys(self.points["series"]))

    @property
    def firsts(self) -> tuple[str, ...]:
        """The first point of each algorithm, which has the algorithm's colour."""
        return tuple(self.points.drop_duplicates("series")["name"])

    @property
    def titles(self) -> tuple[str, ...]:
        """Short forms of the keys."""
        return short_keys(self.keys)

    def values(self, results: Results, column: str) -> pd.DataFrame:
        """Return the points with the last ``value`` of a column, the mean over seeds.

        Where a value of the column ends runs, all end alike, and it is the rounds until then. It is
        NaN where there is none, and where every run ``failed``.
        """
        failed = [name in results.failed for name in self.points["name"]]
        goal = stopped_at(results, column)
        ends = [
            float("nan") if lost else _end(results, name, column, goal)
            for name, lost in zip(self.points["name"], failed, strict=True)
        ]
        return self.points.assign(value=ends, failed=failed)


def find(results: Results) -> SweptPoints | None:
    """Return the sweep of a study, None unless it is over one number or two.

    Points are the settings of a grid, which all algorithms share; without a grid, the algorithms of
    the same kind with different settings.
    """
    settings = {run.setting for run in results.runs_found}
    return _of_grid(results) if len(settings) > 1 else _of_algorithms(results)


def _end(results: Results, name: str, column: str, goal: float | None) -> float:
    """Return the mean last value, or the mean rounds to a goal if every seed got there."""
    frames = [history(run) for run in results.usable(name)]
    if goal is not None:
        at = [(frame, crossing(frame, results.column(column), goal)) for frame in frames]
        there = [frame["round"][place] for frame, place in at if place is not None]
        return float(np.mean(there)) if there and len(there) == len(frames) else float("nan")
    return final(frames, column)[0]


def _of_grid(results: Results) -> SweptPoints | None:
    """Return the sweep of a grid over keys that differ between settings of one label."""
    runs = [results.of(name)[0] for name in results.names]
    own: dict[str, dict[str, Any]] = {}
    shared: dict[str, dict[str, Any]] = {}  # for algorithms that the grid leaves as they are
    for label in dict.fromkeys(run.label for run in runs):
        own_runs = [run for run in runs if run.label == label]
        for run, values in zip(own_runs, _unequal([_facts(run) for run in own_runs]), strict=True):
            own[run.name] = values
            shared[run.setting] = values | shared.get(run.setting, {})
    rows = [
        {"series": run.label, "name": run.name, **shared[run.setting], **own[run.name]}
        for run in runs
    ]
    return _sweep(pd.DataFrame(rows))


def _of_algorithms(results: Results) -> SweptPoints | None:
    """Return the sweep of algorithms of one kind; the largest if there are several."""
    sweeps = []
    kinds: dict[str, list[RunRecord]] = {}
    for name in results.names:
        run = results.of(name)[0]
        kinds.setdefault(str(run.info.get("algorithm")), []).append(run)
    for kind, runs in kinds.items():
        facts = [own_facts(run.info) for run in runs]
        values = _unequal([{k: v for k, v in held.items() if k != "name"} for held in facts])
        rows = pd.DataFrame(values, columns=[*dict.fromkeys(k for held in values for k in held)])
        rows.insert(0, "series", kind)
        rows.insert(1, "name", [run.name for run in runs])
        sweeps.append(_sweep(rows))
    found = (sweep for sweep in sweeps if sweep is not None)
    return max(found, key=lambda sweep: len(sweep.points), default=None)


def _unequal(facts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the differing part of each of several settings."""
    keys = unequal(facts)
    return [{key: held.get(key) for key in keys} for held in facts]


def _sweep(rows: pd.DataFrame) -> SweptPoints | None:
    """Return rows as a sweep if one or two keys differ, and both hold numbers throughout."""
    keys = [key for key in rows.columns if key not in ("series", "name")]
    keys = _differing(rows, keys)
    if not 1 <= len(keys) <= 2 or not all(_numeric(rows[key]) for key in keys):
        return None
    if rows[keys].isna().any(axis=None):  # keys of some algorithms alone
        return None
    cells = rows[keys].drop_duplicates()
    places = int(np.prod([rows[key].nunique() for key in keys]))
    if len(cells) < _LEAST[len(keys)] or len(cells) < _FILLED * places:
        return None
    rows = rows.astype(dict.fromkeys(keys, float))
    return SweptPoints(tuple(keys), rows[["series", "name", *keys]])


def _differing(rows: pd.DataFrame, keys: list[str]) -> list[str]:
    """Return keys, of those that change together the first."""
    return [k for i, k in enumerate(keys) if not any(_alike(rows, k, other) for other in keys[:i])]


def _alike(rows: pd.DataFrame, one: str, other: str) -> bool:
    """Whether two keys change together, so that they are one."""
    pairs = rows[[one, other]].astype(str).drop_duplicates()
    return len(pairs) == rows[one].astype(str).nunique() == rows[other].astype(str).nunique()


def _numeric(values: pd.Series) -> bool:
    return all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)


def differing_facts(runs: Mapping[str, RunRecord]) -> pd.DataFrame:
    """Return differences between runs: one row per run, one column per dotted key.

    Of keys that change together, only the first is kept.
    """
    values = _unequal([_facts(run) for run in runs.values()])
    rows = pd.DataFrame(values, index=[*runs], dtype=object)
    return rows[_differing(rows, list(rows.columns))]


def _facts(run: RunRecord) -> dict[str, Any]:
    """Return the settings of a run: its algorithm's and the rest of its scenario."""
    return own_facts(run.info) | scenario_facts(run.info)
