"""Tables of all runs, each row with its run's label, seed and setting."""

from __future__ import annotations

from typing import Any

import pandas as pd

from rayfed.report.read.profiles import of_run
from rayfed.report.read.results import Results, RunRecord

FRAMES = ("rounds", "events", "clients", "personal", "activity", "profile")
_FIRST_COLUMNS = ("label", "seed", "setting")


def frame(results: Results, what: str) -> pd.DataFrame:
    """Return a table of all runs that have it.

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
    found = of_run(run)
    return pd.DataFrame() if found is None else found.to_frame().T
