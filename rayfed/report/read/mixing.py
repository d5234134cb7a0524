"""Cost of slow mixing: rounds to a goal against the relaxation time 1 / (1 - lambda_2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rayfed.core.columns import Column
from rayfed.report.read import units
from rayfed.report.read.results import Results, Run
from rayfed.report.read.series import crossing, history, stopped_at, y_columns
from rayfed.report.read.settings import short_keys
from rayfed.report.read.sweeps import differing_facts

_OF_WALK = ("topology.", "participation.select.rule.", "select.rule.")
_SPAN = 1.5  # smallest ratio of the relaxation times on one line
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Power:
    """Power law of the rounds of one algorithm in the relaxation time.

    Parameters
    ----------
    value, low, high : float
        The power by least squares in logarithms, and its 95 % confidence interval (Student's t).
    rounds : dict of str to float
        The rounds at a relaxation time of 1 move, for each `group` that has a line.
    """

    value: float
    low: float
    high: float
    rounds: dict[str, float]


@dataclass(frozen=True)
class Mixing:
    """Points of a sweep with walking servers whose runs end at a goal.

    Parameters
    ----------
    column : Column
        The column that ends the runs.
    goal : float
        The value that ends the runs.
    points : DataFrame
        One row per point: ``name`` (as elsewhere on the page), ``series`` (the algorithm),
        ``group`` (text, what differs besides the walk), ``walk`` (text, empty if there is no short
        one), ``relaxation`` (1 / (1 - lambda_2), in moves), ``rounds`` (mean over seeds) and
        ``reached`` (by every seed; otherwise ``rounds`` counts all rounds).
    powers : dict of str to Power
        By algorithm, without those with too few points or too similar walks.
    """

    column: Column
    goal: float
    points: pd.DataFrame
    powers: dict[str, Power]


def find(results: Results, column: str | None = None) -> Mixing | None:
    """Return the cost of mixing, or None if a study does not show it.

    Points share a line only if nothing but the walk differs: larger graphs mix more slowly and also
    have more clients to visit, and a line across sizes would combine both effects.

    Parameters
    ----------
    results : Results
        A result folder.
    column : str, optional
        The column that ends the runs. If None, the first column of the rounds that shows it.
    """
    for name in y_columns(results) if column is None else [column]:
        goal = stopped_at(results, name)
        points = _points(results, name, goal) if goal is not None else pd.DataFrame()
        series = points.groupby("series", sort=False) if len(points) else ()
        fits = {str(label): fit(rows[rows["reached"]]) for label, rows in series}
        powers = {label: power for label, power in fits.items() if power is not None}
        if goal is not None and powers:
            return Mixing(results.column(name), goal, points, powers)
    return None


def fit(points: pd.DataFrame) -> Power | None:
    """Fit log(rounds) = base(group) + power * log(relaxation) to points that reached the goal.

    Parameters
    ----------
    points : DataFrame
        As in `Mixing`, of one algorithm.

    Returns
    -------
    Power or None
        None unless a group has different walks and a degree of freedom is left for the error.
    """
    spans = points.groupby("group")["relaxation"].agg(lambda x: x.max() / x.min())
    kept = points[points["group"].isin(spans.index[spans >= _SPAN])]
    free = len(kept) - kept["group"].nunique() - 1
    if free < 1:
        return None
    from scipy.stats import t  # imported late: scipy.stats is slow to import

    logs = kept[["relaxation", "rounds"]].transform(np.log)
    means = logs.groupby(kept["group"]).transform("mean")
    x, y = (logs - means).to_numpy().T
    power = float(x @ y / (x @ x))
    error = float(np.sqrt(np.sum((y - power * x) ** 2) / free / (x @ x)))
    reach = float(t.ppf((1 + _CONFIDENCE) / 2, free)) * error
    bases = (means["rounds"] - power * means["relaxation"]).groupby(kept["group"]).first()
    rounds = {str(group): float(np.exp(base)) for group, base in bases.items()}
    return Power(power, power - reach, power + reach, rounds)


def _points(results: Results, column: str, goal: float) -> pd.DataFrame:
    names = [name for name in results.names if name not in results.failed]
    ends = results.column(column)
    rows = [_point(results.usable(name), ends, goal) | {"name": name} for name in names]
    frame = pd.DataFrame(rows)
    frame = frame[np.isfinite(frame["relaxation"]) & (frame["rounds"] > 0)] if rows else frame
    if not len(frame):
        return frame
    settings = {str(run.info.get("setting") or "") for run in results.runs_found}
    first = {name: results.of(name)[0] for name in frame["name"]}
    kind = "label" if len(settings) > 1 else "algorithm"
    frame["series"] = [str(first[name].info.get(kind)) for name in frame["name"]]
    texts = [_texts({n: first[n] for n in rows["name"]}) for _, rows in frame.groupby("series")]
    return frame.merge(pd.concat(texts), on="name")


def _point(runs: list[Run], column: Column, goal: float) -> dict[str, Any]:
    """Return relaxation time and rounds of one point."""
    frames = [history(run) for run in runs]
    at = [crossing(frame, column, goal) if column.name in frame else None for frame in frames]
    reached = bool(at) and all(row is not None for row in at)
    ends = [frame.iloc[-1] if row is None else row for frame, row in zip(frames, at, strict=True)]
    return {
        "relaxation": _relaxation(runs),
        "rounds": float(np.mean([float(row["round"]) for row in ends])) if ends else np.nan,
        "reached": reached,
    }


def _relaxation(runs: list[Run]) -> float:
    """Return 1 / (1 - lambda_2), lambda_2 the mean over recorded rounds and seeds; NaN if unknown.

    A mean of 1 / (1 - lambda_2) would be infinite if a single graph is disconnected.
    """
    known = [run.walk.lambda_2[run.walk.graph] for run in runs if run.walk is not None]
    if not known or len(known) < len(runs):
        return np.nan
    middle = float(np.mean([values.mean() for values in known]))
    return 1 / (1 - middle) if middle < 1 else np.nan


def _texts(runs: dict[str, Run]) -> pd.DataFrame:
    """Describe what differs between runs of one algorithm: ``group`` and ``walk``."""
    facts = differing_facts(runs)
    keys = [str(key) for key in facts]
    of_walk = [key for key in keys if key.startswith(_OF_WALK)]
    others = [key for key in keys if key not in of_walk]
    short = dict(zip(keys, short_keys(keys), strict=True))
    frame = pd.DataFrame({"name": list(runs)})
    frame["group"] = [
        ", ".join(_text(key, short[key], facts.at[name, key]) for key in others) for name in runs
    ]
    frame["walk"] = ""
    for key in of_walk:
        walks = [_text(key, short[key], facts.at[name, key]) for name in runs]
        if not frame.assign(walk=walks).duplicated(["group", "walk"]).any():
            frame["walk"] = walks
            break
    return frame


def _text(key: str, short: str, value: Any) -> str:
    if key == "clients.count":
        return f"{value:,} clients"
    if key.endswith(".name"):
        return str(value)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return f"{short} {units.number(value) if number else value}"
