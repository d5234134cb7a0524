"""Whether claims hold: their values read from what runs recorded, and compared."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rayfed.core.arrays import Floats
from rayfed.core.errors import RayfedError
from rayfed.engine.rows import NOT_FINITE
from rayfed.reproduce.claims import Check, Claim, Claims, Value, Where

NEVER = math.inf
"""Rounds to a target that is not reached: later than any round."""
SHOWN = 8
"""So many numbers of a list are shown."""
_SLACK = 1e-12  # 1.1 is within 0.1 of 1, though 1.1 - 1 > 0.1 in floating point
_REDUCE: Mapping[str, Callable[[Floats], Any]] = {
    "mean": np.mean,
    "min": np.min,
    "max": np.max,
    "sum": np.sum,
    "sd": lambda values: np.std(values, ddof=1) if len(values) > 1 else math.nan,
}


class Unmeasured(RayfedError):
    """A value cannot be read from what was recorded."""


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
    """

    runs: Runs
    models: Mapping[Key, Path] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Recorded:
        """Read a result folder."""
        runs: Runs = {}
        models = {}
        for path in sorted(folder.glob("*/run.json")):
            record = json.loads(path.read_text(encoding="utf-8"))
            table = path.with_name("rounds.parquet")
            rows = pd.read_parquet(table) if table.exists() else pd.DataFrame({"round": []})
            why = str(record["reason"]) if record["status"] == "failed" else None
            key = record["label"], record["setting"], record["seed"]
            runs[key] = rows, why
            models[key] = path.with_name("model.npz")
        return cls(runs, models)

    def of(self, where: Where) -> Runs:
        """Return the runs that a place names.

        Raises
        ------
        Unmeasured
            If there is none.
        """
        wanted = (where.of, where.setting, where.seed)
        named = {key: run for key, run in self.runs.items() if _fits(key, wanted)}
        if not named:
            raise Unmeasured(f"nothing is recorded of {where.of or 'its runs'}")
        return named


def _fits(key: tuple[Any, ...], wanted: tuple[Any, ...]) -> bool:
    return all(want in (None, part) for part, want in zip(key, wanted, strict=True))


def _name(key: Key) -> str:
    label, setting, seed = key
    return f"{label} ({setting}), seed {seed}" if setting else f"{label}, seed {seed}"


@dataclass(frozen=True)
class Verdict:
    """What came of a claim.

    Parameters
    ----------
    claim : Claim
        What the source says.
    holds : bool or None
        None if it could not be checked.
    measured : str
        What was measured, or why nothing could be.
    values : tuple of float
        The numbers that were compared; infinite for "never".
    seeds : int
        Seeds that they are means over, the fewest of any of them.
    """

    claim: Claim
    holds: bool | None
    measured: str
    values: tuple[float, ...] = ()
    seeds: int = 1

    @property
    def status(self) -> str:
        """Return ``holds``, ``fails``, ``not reproduced`` or ``not checked``."""
        if self.holds is None:
            return "not checked"
        if self.holds:
            return "holds"
        return "not reproduced" if self.claim.because else "fails"

    @property
    def expected(self) -> bool:
        """Whether the claim holds, or fails for the reason that its file gives."""
        return self.status in ("holds", "not reproduced")

    @property
    def remark(self) -> str:
        """A remark for the reader; empty if there is none."""
        if self.claim.because and self.holds:
            return f"holds after all; the mark can go ({self.claim.because})"
        return self.claim.because or ""

    def as_plain(self) -> dict[str, Any]:
        """Return the verdict as plain values; "never", infinite numbers and NaN are texts."""
        values = [v if math.isfinite(v) else number(v) for v in self.values]
        return {
            "says": self.claim.says, "where": self.claim.where, "part": self.claim.part,
            "status": self.status, "holds": self.holds, "measured": self.measured,
            "seeds": self.seeds,
            "values": values, "because": self.claim.because, "remark": self.remark,
            "check": given(self.claim.check.model_dump()),
        }  # fmt: skip


def judge(claims: Claims, claim: Claim, recorded: Mapping[str, Recorded]) -> Verdict:
    """Return whether a claim holds in what the parts recorded.

    Parameters
    ----------
    claims : Claims
        What the claim is one of.
    claim : Claim
        What is judged.
    recorded : mapping of str to Recorded
        What the parts left; all that the claim reads.
    """

    def source(where: Where) -> Recorded:
        return recorded[claims.part_of(claim, where)]

    check = claim.check
    try:
        if check.diverges is not None:
            return _diverges(claim, source)
        values = [measure(value, source) for value in check.values]
    except Unmeasured as error:
        return Verdict(claim, False, str(error))
    flat = tuple(float(v) for v in np.concatenate(values))
    return Verdict(claim, compare(check, flat), text(flat) + claimed(check), flat)


def claimed(check: Check) -> str:
    """Return the numbers that a check compares with, in brackets; empty if there are none."""
    if check.equals is not None:
        numbers = text(np.atleast_1d(np.asarray(check.equals, dtype=float)))
    elif check.between is not None:
        numbers = f"{number(check.between[0])} to {number(check.between[1])}"
    elif check.form in ("below", "above"):
        numbers = f"{check.form} {number(getattr(check, check.form))}"
    else:
        numbers = f"{number(check.by)} times" if check.by is not None else ""
        if check.apart is not None:
            numbers += f"{numbers and ', '}{number(check.apart)} apart"
    return f" (claimed: {numbers})" if numbers else ""


def compare(check: Check, values: Sequence[float]) -> bool:
    """Return whether values satisfy a check; NaN never does.

    Parameters
    ----------
    check : Check
        Any but ``diverges``.
    values : sequence of float
        Infinite for "never": it is later than any round, but by no known factor.
    """
    measured = np.asarray(values, dtype=float)
    if np.isnan(measured).any():
        return False
    if check.form in ("descending", "ascending"):
        ordered = measured if check.form == "ascending" else measured[::-1]
        return _ascends(ordered, check.by, check.apart)
    if check.below is not None:
        return bool((measured < check.below).all())
    if check.above is not None:
        return bool((measured > check.above).all())
    if check.between is not None:
        low, high = check.between
        return bool(((low <= measured) & (measured <= high)).all())
    wanted = np.atleast_1d(np.asarray(check.equals, dtype=float))
    return len(wanted) == len(measured) and bool(_close(check, measured, wanted).all())


def _ascends(values: Floats, by: float | None, apart: float | None) -> bool:
    if not (values[1:] > values[:-1]).all():
        return False
    if by is None and apart is None:
        return True
    if not np.isfinite(values).all():
        return False
    least = np.maximum((by or 1.0) * values[:-1], values[:-1] + (apart or 0.0) * (1 - _SLACK))
    return bool((values[1:] >= least).all())


def _close(check: Check, measured: Floats, wanted: Floats) -> npt.NDArray[np.bool_]:
    if check.factor is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            times = measured / wanted
        return (1 / check.factor <= times) & (times <= check.factor)
    relative, absolute = check.within or 0.0, check.absolute or 0.0
    allowed = (relative * np.abs(wanted) + absolute) * (1 + _SLACK)
    return np.asarray(np.abs(measured - wanted) <= allowed)


def measure(value: Value, source: Callable[[Where], Recorded]) -> Floats:
    """Return the numbers (k,) that a value stands for, means over seeds.

    Raises
    ------
    Unmeasured
        If something was not recorded.
    """
    both = value.ratio or value.difference
    if both is not None:
        first, second = (measure(one, source) for one in both)
        if len(first) != len(second):
            raise Unmeasured(f"{len(first)} and {len(second)} values cannot be compared")
        if np.isinf([*first, *second]).any():
            raise Unmeasured(f"{text(first)} and {text(second)} give no number")
        with np.errstate(divide="ignore", invalid="ignore"):
            return first / second if value.ratio else first - second
    each = []
    recorded = source(value)
    for key, (rows, why) in recorded.of(value).items():
        if why is not None:
            raise Unmeasured(f"{_name(key)} failed: {why}")
        if value.parameters is not None:
            each.append(_coordinates(value.parameters, _name(key), recorded.models[key]))
        else:
            each.append(_read(value, _name(key), rows))
    return np.asarray(np.mean(each, axis=0))


def _read(value: Value, name: str, rows: pd.DataFrame) -> Floats:
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
    with np.load(path, allow_pickle=False) as arrays:
        x = arrays["x"]
    if max(places) >= len(x):
        raise Unmeasured(f"{name} has {len(x)} parameters, counted from 0")
    return np.asarray(x[list(places)], dtype=float)


def _reached(series: pd.Series, column: str, target: float) -> float:
    good = series >= target if column.endswith("accuracy") else series <= target
    return float(series.index[int(np.argmax(good))]) if good.any() else NEVER


def _diverges(claim: Claim, source: Callable[[Where], Recorded]) -> Verdict:
    wheres = claim.check.diverges or ()
    reasons = [why for where in wheres for _, why in source(where).of(where).values()]
    calm = [why for why in reasons if why is None or NOT_FINITE not in why]
    if not calm:
        return Verdict(claim, True, "; ".join(str(why).partition(";")[0] for why in reasons))
    return Verdict(claim, False, calm[0] or "ends with finite numbers")


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


def given(settings: Any) -> Any:
    """Return plain settings without the keys that were left out."""
    if isinstance(settings, dict):
        return {key: given(value) for key, value in settings.items() if value is not None}
    return [given(one) for one in settings] if isinstance(settings, list) else settings
