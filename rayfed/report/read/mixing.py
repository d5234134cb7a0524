"""What a walk's mixing costs: rounds to a goal against 1 / (1 - lambda_2), all else alike."""

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
_SPAN = 1.5  # least ratio of the relaxation times of a line's points
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Power:
    """How the rounds of one algorithm go with the relaxation time: with which power of it.

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
    """Points of a sweep whose servers walk, and whose runs end at a goal.

    Parameters
    ----------
    column : Column
        What ends the runs.
    goal : float
        The value at which it does.
    points : DataFrame
        A row a point: ``name`` (as elsewhere on the page), ``series`` (the algorithm), ``group``
        (in words, what differs besides the walk), ``walk`` (in words, empty if there is no short
        one), ``relaxation`` (1 / (1 - lambda_2), in moves), ``rounds`` (mean over seeds) and
        ``reached`` (by every seed; otherwise ``rounds`` are those that they ran).
    powers : dict of str to Power
        By algorithm; those whose points are too few, or have walks too much alike, have none.
    """

    column: Column
    goal: float
    points: pd.DataFrame
    powers: dict[str, Power]


def find(results: Results, column: str | None = None) -> Mixing | None:
    """Return what mixing costs, None where a study does not tell.

    Points share a line where nothing but the walk differs: of graphs of several sizes, the larger
    mixes more slowly and has more clients to visit, and a line across them would count both.

    Parameters
    ----------
    results : Results
        A result folder.
    column : str, optional
        What ends the runs. If None: the first of the rounds' columns that tells.
    """
    for each in y_columns(results) if column is None else [column]:
        goal = stopped_at(results, each)
        points = _points(results, each, goal) if goal is not None else pd.DataFrame()
        series = points.groupby("series", sort=False) if len(points) else ()
        fits = {str(name): fit(mine[mine["reached"]]) for name, mine in series}
        powers = {name: found for name, found in fits.items() if found is not None}
        if goal is not None and powers:
            return Mixing(results.column(each), goal, points, powers)
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
        None unless a group has walks that differ, and a point is left to tell the error from.
    """
    spans = points.groupby("group")["relaxation"].agg(lambda x: x.max() / x.min())
    kept = points[points["group"].isin(spans.index[spans >= _SPAN])]
    free = len(kept) - kept["group"].nunique() - 1
    if free < 1:
        return None
    from scipy.stats import t  # here: scipy takes a while to import

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
    told = [_told({n: first[n] for n in mine["name"]}) for _, mine in frame.groupby("series")]
    return frame.merge(pd.concat(told), on="name")


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

    A mean of 1 / (1 - lambda_2) would be infinite as soon as one graph falls apart.
    """
    known = [run.walk.lambda_2[run.walk.graph] for run in runs if run.walk is not None]
    if not known or len(known) < len(runs):
        return np.nan
    middle = float(np.mean([values.mean() for values in known]))
    return 1 / (1 - middle) if middle < 1 else np.nan


def _told(runs: dict[str, Run]) -> pd.DataFrame:
    """Return in words what differs between runs of one algorithm: besides the walk, and in it."""
    facts = differing_facts(runs)
    keys = [str(key) for key in facts]
    of_walk = [key for key in keys if key.startswith(_OF_WALK)]
    others = [key for key in keys if key not in of_walk]
    short = dict(zip(keys, short_keys(keys), strict=True))
    told = pd.DataFrame({"name": list(runs)})
    told["group"] = [
        ", ".join(_text(key, short[key], facts.at[name, key]) for key in others) for name in runs
    ]
    told["walk"] = ""
    for key in of_walk:
        texts = [_text(key, short[key], facts.at[name, key]) for name in runs]
        if not told.assign(walk=texts).duplicated(["group", "walk"]).any():
            told["walk"] = texts
            break
    return told


def _text(key: str, short: str, value: Any) -> str:
    if key == "clients.count":
        return f"{value:,} clients"
    if key.endswith(".name"):
        return str(value)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return f"{short} {units.number(value) if number else value}"
