"""Numbers that claims are about, read from what runs recorded."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from rayfed.core.announced import read_table
from rayfed.core.arrays import Floats
from rayfed.core.errors import RayfedError
from rayfed.core.files import read_arrays, read_json, reading
from rayfed.reproduce.claims import RecordedValue, Where

NEVER = math.inf
"""Rounds to a target that is not reached: later than any round."""
SHOWN = 8
"""So many numbers of a list are shown."""
_REDUCE: Mapping[str, Callable[[Floats], Any]] = {
    "mean": np.mean,
    "min": np.min,
    "max": np.max,
    "sum": np.sum,
    "sd": lambda values: np.std(values, ddof=1) if len(values) > 1 else math.nan,
}


class Unmeasured(RayfedError):
    """A value cannot be read from what was recorded."""


Source: TypeAlias = "Callable[[Where], Recorded]"
Key = tuple[str, str, int]
Runs = dict[Key, tuple[pd.DataFrame, str | None]]


@dataclass(frozen=True)
class Recorded:
    """What the runs of one part left.

    Parameters
    ----------
    runs : dict of (label, setting, seed) to (DataFrame, str or None)
        The rows of each run, and why it failed if it did.
    models : mapping of (label, setting, seed) to Path
        Where the final model of each run is, if it has one.
    notes : tuple of str
        What the data says of itself: that it is a subset, for example.
    """

    runs: Runs
    models: Mapping[Key, Path] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @classmethod
    def read(cls, folder: Path) -> Recorded:
        """Read a result folder."""
        runs: Runs = {}
        models = {}
        notes: dict[str, None] = {}  # a set that keeps the order
        for path in sorted(folder.glob("*/run.json")):
            record = read_json(path)
            table = read_table(path.parent, "rounds", record)
            rows = pd.DataFrame({"round": []}) if table is None else table.to_pandas()
            why = str(record["reason"]) if record["status"] == "failed" else None
            key = record["label"], record["setting"], record["seed"]
            runs[key] = rows, why
            models[key] = path.with_name("model.npz")
            if record.get("data_note"):
                notes[str(record["data_note"])] = None
        return cls(runs, models, tuple(notes))

    def of(self, where: Where, seed: int | None = None) -> Runs:
        """Return the runs that a place names, those of one seed where it leaves the seed open.

        Raises
        ------
        Unmeasured
            If there is none.
        """
        wanted = (where.of, where.setting, seed if where.seed is None else where.seed)
        named = {key: run for key, run in self.runs.items() if _fits(key, wanted)}
        if not named:
            raise Unmeasured(f"nothing is recorded of {where.of or 'its runs'}")
        return named


def _fits(key: tuple[Any, ...], wanted: tuple[Any, ...]) -> bool:
    return all(want in (None, part) for part, want in zip(key, wanted, strict=True))


def _name(key: Key) -> str:
    label, setting, seed = key
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
    recorded = source(value)
    for key, (rows, why) in recorded.of(value, seed).items():
        if why is not None:
            raise Unmeasured(f"{_name(key)} failed: {why}")
        if value.parameters is not None:
            each.append(_coordinates(value.parameters, _name(key), recorded.models[key]))
        else:
            each.append(_read(value, _name(key), rows))
    return np.asarray(np.mean(each, axis=0))


def _read(value: RecordedValue, name: str, rows: pd.DataFrame) -> Floats:
    """Return the numbers (k,) of one run."""
    if value.name not in rows:
        raise Unmeasured(f"{name} has no column {value.name}")
    rows = rows[rows[value.name].notna()]
    series = pd.Series(rows[value.name].to_numpy(float), index=rows["round"].to_numpy())
    if not len(series):
        raise Unmeasured(f"{name} has no value of {value.name}")
    if value.rounds_to is not None:
        return np.array([_reached(series, *next(iter(value.rounds_to.items())))])
    if value.reduce is not None:
        first, last = value.over or (series.index[0], series.index[-1])
        kept = series[(series.index >= first) & (series.index <= last)]
        if not len(kept):
            raise Unmeasured(f"{name} has no value of {value.name} from round {first} to {last}")
        return np.array([float(_REDUCE[value.reduce](kept.to_numpy()))])
    if value.at == "last":
        return np.array([series.iloc[-1]])
    held = dict(zip(series.index.tolist(), series.tolist(), strict=True))
    for round in value.rounds:
        if round not in held:
            raise Unmeasured(f"{name} has no value of {value.name} at round {round}")
    return np.array([held[round] for round in value.rounds])


def _coordinates(places: Sequence[int], name: str, path: Path) -> Floats:
    """Return coordinates (k,) of the final model of one run."""
    with reading(path, "a model"):
        x = read_arrays(path)["x"]
    if max(places) >= len(x):
        raise Unmeasured(f"{name} has {len(x)} parameters, counted from 0")
    return np.asarray(x[list(places)], dtype=float)


def _reached(series: pd.Series, column: str, target: float) -> float:
    good = series >= target if column.endswith("accuracy") else series <= target
    return float(series.index[int(np.argmax(good))]) if good.any() else NEVER


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
