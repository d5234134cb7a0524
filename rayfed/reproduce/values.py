"""Numbers that claims are about, read from what runs recorded."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from rayfed.core.arrays import Floats
from rayfed.core.errors import RayfedError
from rayfed.core.files import read_arrays, reading
from rayfed.report.read.results import RunRecord
from rayfed.reproduce.claims import RecordedValue, Where

NEVER = math.inf
"""Rounds to a target that is not reached: later than any round."""
SHOWN = 8
"""So many numbers of a list are shown."""


class Unmeasured(RayfedError):
    """A value cannot be read from what was recorded."""


Source: TypeAlias = Callable[[Where, int | None], Sequence[RunRecord]]
"""Returns the runs that a place of a claim names, those of one seed where it leaves that open."""


def chosen(runs: Sequence[RunRecord], where: Where, seed: int | None = None) -> list[RunRecord]:
    """Return those of a part's runs that a place names; a `Source` once it is known whose runs.

    Raises
    ------
    Unmeasured
        If there is none.
    """
    wanted = (where.of, where.setting, seed if where.seed is None else where.seed)
    named = [
        run
        for run in runs
        if all(want in (None, has) for want, has in zip(wanted, key(run), strict=True))
    ]
    if not named:
        raise Unmeasured(f"nothing is recorded of {where.of or 'its runs'}")
    return named


def key(run: RunRecord) -> tuple[str, str, int]:
    """Return what tells a run from the others of its part."""
    return run.label, run.setting, run.seed


def why_failed(run: RunRecord) -> str | None:
    """Return why a run failed; None if it did not."""
    return str(run.info["reason"]) if run.status == "failed" else None


def _name(run: RunRecord) -> str:
    label, setting, seed = key(run)
    return f"{label} ({setting}), seed {seed}" if setting else f"{label}, seed {seed}"


def measure(value: RecordedValue, source: Source, seed: int | None = None) -> Floats:
    """Return the numbers (k,) that a value stands for, means over seeds or those of one seed.

    Raises
    ------
    Unmeasured
        If something was not recorded.
    """
    both = value.ratio or value.difference
    if both is not None:
        first, second = (measure(one, source, seed) for one in both)
        if len(first) != len(second):
            raise Unmeasured(f"{len(first)} and {len(second)} values cannot be compared")
        if np.isinf([*first, *second]).any():
            raise Unmeasured(f"{text(first)} and {text(second)} give no number")
        with np.errstate(divide="ignore", invalid="ignore"):
            return first / second if value.ratio else first - second
    each = []
    for run in source(value, seed):
        why = why_failed(run)
        if why is not None:
            raise Unmeasured(f"{_name(run)} failed: {why}")
        if value.parameters is not None:
            each.append(_coordinates(value.parameters, _name(run), run.folder / "model.npz"))
        else:
            each.append(_read(value, run))
    return np.asarray(np.mean(each, axis=0))


def _read(value: RecordedValue, run: RunRecord) -> Floats:
    """Return the numbers (k,) of one run."""
    lacks = f"{_name(run)} has no value of {value.name}"
    if value.name not in run.rounds:
        raise Unmeasured(f"{_name(run)} has no column {value.name}")
    series = run.rounds.set_index("round", drop=False)[value.name].astype(float).dropna()
    if not len(series):
        raise Unmeasured(lacks)
    if value.rounds_to is not None:
        [(column, target)] = value.rounds_to.items()
        good = series >= target if column.endswith("accuracy") else series <= target
        return np.array([float(series.index.to_numpy()[np.argmax(good)]) if good.any() else NEVER])
    if value.reduce is not None:
        first, last = value.over or (series.index[0], series.index[-1])
        kept = series.loc[first:last]
        if not len(kept):
            raise Unmeasured(f"{lacks} from round {first} to {last}")
        return np.array([float(kept.agg("std" if value.reduce == "sd" else value.reduce))])
    if value.at == "last":
        return np.array([series.iloc[-1]])
    for round in value.rounds:
        if round not in series.index:
            raise Unmeasured(f"{lacks} at round {round}")
    return np.asarray(series.loc[list(value.rounds)])


def _coordinates(places: Sequence[int], name: str, path: Path) -> Floats:
    """Return coordinates (k,) of the final model of one run."""
    with reading(path, "a model"):
        x = read_arrays(path)["x"]
    if max(places) >= len(x):
        raise Unmeasured(f"{name} has {len(x)} parameters, counted from 0")
    return np.asarray(x[list(places)], dtype=float)


def number(value: float) -> str:
    """Return a number with six digits.

    Examples
    --------
    >>> number(250.0), number(2.06e-9), number(float("inf"))
    ('250', '2.06e-09', 'never')
    """
    return "never" if math.isinf(value) else f"{value:.6g}"


def text(values: Sequence[float] | Floats) -> str:
    """Return numbers on one line, those in the middle of a long list left out."""
    shown = [number(v) for v in values]
    if len(shown) > SHOWN:
        shown = [*shown[: SHOWN - 1], "...", shown[-1]]
    return ", ".join(shown)
