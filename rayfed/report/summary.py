"""Tidy tables of results: all rows of all runs, a row a run, or a row a setting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from rayfed.core.dotted import flat
from rayfed.report import tables
from rayfed.report.ranking import costs_of
from rayfed.report.read.breakdown import profile_of
from rayfed.report.read.curves import (
    first_column,
    history,
    last_values,
    targets,
    y_columns,
)
from rayfed.report.read.results import Results, RunRecord
from rayfed.report.read.settings import tried
from rayfed.report.read.usage import ENERGY

FRAMES = ("rounds", "events", "clients", "personal", "activity", "profile")
_FIRST_COLUMNS = ("label", "seed", "setting")
COUNTS = (
    "participants",
    "dropped",
    "late",
    "bytes_down",
    "bytes_up",
    "bytes_wasted",
    "local_steps",
)
"""Columns of the rounds with counts, which add up to the totals of a run."""


def frame(results: Results, what: str) -> pd.DataFrame:
    """Return the table of a kind, of all runs that have one.

    Parameters
    ----------
    results : Results
        A result folder.
    what : str
        One of `FRAMES`.
    """
    frames, derived = [], {"activity": _activity, "profile": _profile}
    for run in results.runs_found:
        found = derived[what](run) if what in derived else getattr(run, what).copy()
        about: tuple[Any, ...] = (run.label, run.seed, run.setting)
        for place, (column, value) in enumerate(zip(_FIRST_COLUMNS, about, strict=True)):
            if len(found.columns) and column not in found:
                found.insert(place, column, value)
        frames += [found] if len(found.columns) else []
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _activity(run: RunRecord) -> pd.DataFrame:
    found = run.usage.activity
    return pd.DataFrame() if found is None else found.reset_index()


def _profile(run: RunRecord) -> pd.DataFrame:
    found = profile_of(run)
    return pd.DataFrame() if found is None else found.to_frame().T


def by_run(results: Results, y: str | None = None, target: float | None = None) -> pd.DataFrame:
    """Return a row a run with all numbers at full precision.

    Parameters
    ----------
    results : Results
        A result folder.
    y : str, optional
        The column that the target is set for. If None: `curves.first_column`.
    target : float, optional
        If None: `curves.targets`.

    Returns
    -------
    DataFrame
        ``name`` (as in figures), ``label``, ``algorithm``, ``baseline``, ``setting`` and one
        column for each dotted key of the grid, ``seed``, ``status``; ``rounds`` and ``time_s`` at
        the end; totals of `COUNTS`; ``target_column``, ``target`` and ``..._to_target``, the totals
        at the first evaluated round that is as good as the target, NaN if there was none, with
        ``..._within`` and ``..._to_keep`` as in `tables.summary`; the measures of
        `usage.Usage.totals`; every other column of the rounds at its last evaluated value.
    """
    y = first_column(results) if y is None else y
    goals = targets(results, y) if target is None else dict.fromkeys(results.names, target)
    columns = [column for column in y_columns(results) if column not in (*COUNTS, *ENERGY)]
    grid = tried(results.scenario)
    rows = [
        _about(run)
        | _swept(run, grid)
        | {"seed": run.seed, "status": run.status}
        | _totals(run.rounds)
        | {"target_column": y, "target": np.nan if goals[run.name] is None else goals[run.name]}
        | costs_of(history(run), results.column(y), goals[run.name])
        | run.usage.totals
        | {column: _last(run, column) for column in columns}
        for run in results.runs_found
    ]
    return pd.DataFrame(rows)


def by_setting(results: Results, y: str | None = None, target: float | None = None) -> pd.DataFrame:
    """Return a row a setting of an algorithm: `tables.summary` with the keys of the grid.

    Parameters
    ----------
    results : Results
        A result folder.
    y, target : optional
        As in `by_run`.

    Returns
    -------
    DataFrame
        The columns of ``summary.csv`` (see `tables.summary`); after ``name`` come ``label``,
        ``setting`` and one column for each dotted key of the grid.
    """
    frame = tables.summary(results, y, target)
    grid = tried(results.scenario)
    runs = [results.of(str(name))[0] for name in frame["name"]]
    settings = [{key: _about(run)[key] for key in ("label", "setting")} | _swept(run, grid)
                for run in runs]  # fmt: skip
    return pd.concat([frame[["name"]], pd.DataFrame(settings), frame.drop(columns="name")], axis=1)


def _about(run: RunRecord) -> dict[str, Any]:
    return {
        "name": run.name,
        "label": run.label,
        "algorithm": str(run.info.get("algorithm", run.label)),
        "baseline": run.baseline,
        "setting": run.setting,
    }


def _swept(run: RunRecord, grid: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the values of a run in the grid, by dotted key, with lists as texts."""
    setting = grid.get(run.setting, {})
    return {key: str(v) if isinstance(v, list) else v for key, v in flat(setting).items()}


def _totals(rounds: pd.DataFrame) -> dict[str, float]:
    if not len(rounds):
        return {"rounds": 0, "time_s": np.nan}
    last = rounds.iloc[-1]
    totals = {column: rounds[column].sum() for column in COUNTS if column in rounds}
    return {"rounds": int(last["round"]), "time_s": float(last["time_s"])} | totals


def _last(run: RunRecord, column: str) -> float:
    return float([np.nan, *last_values([history(run)], column)][-1])
