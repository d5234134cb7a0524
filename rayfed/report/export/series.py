"""Settings of a run, and its columns over the rounds, as every tool is given them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd

from rayfed.core.arrays import Floats, Ints
from rayfed.core.errors import RayfedError
from rayfed.report.read.compared import own_facts, scenario_facts, shown
from rayfed.report.read.results import RunRecord

T = TypeVar("T")
_KEYS = ("seed", "round")
"""Numeric columns that say which row it is."""


@dataclass(frozen=True)
class RunSeries:
    """A column of the rounds, without the rounds in which it was not measured.

    Parameters
    ----------
    name : str
        The column.
    rounds : (n,) array
    seconds : (n,) array
        When: the start of the run on the wall plus the simulated time, in seconds since the epoch.
        So what a tool shows as time since the start is simulated time.
    values : (n,) array
    """

    name: str
    rounds: Ints
    seconds: Floats
    values: Floats


def series(run: RunRecord) -> Iterator[RunSeries]:
    """Return every numeric column of the rounds of a run that holds something."""
    frame, began = run.rounds, started_s(run)
    for name in frame.columns:
        if name in _KEYS or not pd.api.types.is_numeric_dtype(frame[name]):
            continue
        values = frame[name].to_numpy(dtype=float, na_value=np.nan)
        known = np.isfinite(values)
        if known.any():
            rounds = frame["round"].to_numpy(np.int64)[known]
            seconds = began + frame["time_s"].to_numpy(float)[known]
            yield RunSeries(str(name), rounds, seconds, values[known])


def settings(run: RunRecord) -> dict[str, str]:
    """Return all settings of a run by dotted key: of the scenario, the algorithm and the seed."""
    own = {f"algorithm.{key}": value for key, value in own_facts(run.info).items()}
    facts = {"label": run.label, "seed": run.seed} | own | scenario_facts(run.info)
    return {key: shown(value) for key, value in facts.items() if value is not None}


def started_s(run: RunRecord) -> float:
    """Return when a run began, in seconds since the epoch; 0 if that is not recorded."""
    try:
        return datetime.fromisoformat(str(run.info.get("started"))).timestamp()
    except ValueError:
        return 0.0


def chunks(items: Iterable[T], most: int) -> Iterator[list[T]]:
    """Return items in lists of so many.

    Examples
    --------
    >>> list(chunks("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    left = iter(items)
    while chunk := list(islice(left, most)):
        yield chunk


def make(folder: Path) -> None:
    """Make a folder.

    Raises
    ------
    RayfedError
        If it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise RayfedError(f"{folder}: cannot be written ({why})") from error


def missing(library: str, extra: str) -> RayfedError:
    """Return the error of a library that is not installed."""
    text = f"this export needs {library}; install it with: pip install 'rayfed[{extra}]'"
    return RayfedError(text)
