"""Learning curves: the clocks they are read on, means over seeds, and when a target was reached."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from rayfed.core.arrays import Array, Bools, Floats, Ints
from rayfed.core.columns import Column
from rayfed.report.read.breakdown import LAYER_DRIFT
from rayfed.report.read.results import Results, RunRecord, per_results
from rayfed.report.read.run import COMMUNICATIONS

_Kind = TypeVar("_Kind", bound=np.generic)
History: TypeAlias = Mapping[str, Array]
"""Columns of a run by name, each (rounds,); see `history`."""


@dataclass(frozen=True)
class Axis:
    """A clock that a comparison can be read on.

    Parameters
    ----------
    column : str
        Its column in `history`.
    title : str
        Title, with ``{unit}`` if it has one.
    units : tuple of (str, float)
        Units in ascending order, with their value in the smallest.
    """

    column: str
    title: str
    units: tuple[tuple[str, float], ...] = (("", 1.0),)

    def unit(self, largest: float) -> tuple[str, float]:
        """Return the best unit for a scale up to `largest`, and its value."""
        suitable = [unit for unit in self.units if largest >= 2 * unit[1]]
        return suitable[-1] if suitable else self.units[0]


_TIMES = (("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("h", 3600.0), ("d", 86400.0))
_JOULES = (("J", 1.0), ("kJ", 1e3), ("MJ", 1e6), ("GJ", 1e9))
_BYTES = (("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12))

ENERGY = "energy_j"
"""What devices have spent, a clock of runs that record it."""
EPSILON = "epsilon"
"""What private runs have spent, a clock of them alone."""
X_AXES = {
    "round": Axis("round", "round"),
    "time_s": Axis("time_s", "simulated time", _TIMES),
    "bytes_up": Axis("bytes_up", "bytes uploaded", _BYTES),
    "updates": Axis("updates", "client updates"),
    COMMUNICATIONS: Axis(COMMUNICATIONS, COMMUNICATIONS),
    ENERGY: Axis(ENERGY, "energy", _JOULES),
    EPSILON: Axis(EPSILON, "privacy spent (epsilon)"),
}
_FIRST = ("loss", "test_loss", "loss_gap", "accuracy")  # offered even if they never change
_DIGITS = 6  # of a target, at most
_OF_BEST, _OF_MIDDLE = np.array([0.1, 0.5]), 2 / 3  # progress by which algorithms and runs count
_NEVER_Y = {"algorithm", "label", "seed", "round", "time_s", "name", COMMUNICATIONS, "position"}


def history(run: RunRecord) -> History:
    """Return the columns of numbers of a run's rounds, with the clocks as totals since the start.

    Returns
    -------
    mapping of str to array (rounds,)
        ``time_s`` (simulated seconds), ``bytes_up`` (bytes), ``bytes`` (down and up),
        ``energy_j``, ``updates`` (replies used) and ``communications`` (exchanges with the
        cohort: one a round in which something was uploaded, unless the run recorded how many) are
        totals; all other columns are as recorded. It is cached for each run; do not write into it.
    """
    return run.history


def clocks(results: Results) -> dict[str, Axis]:
    """Return the clocks of a study, the one that is drawn first first.

    Communications are among them only if they differ from rounds, energy and epsilon where they are
    recorded.
    Simulated time comes first where an algorithm has no rounds.
    """
    missing = {COMMUNICATIONS, ENERGY, EPSILON} - results.recorded
    axes = {name: axis for name, axis in X_AXES.items() if name not in missing}
    if results.asynchronous:
        axes = {"time_s": axes["time_s"]} | axes
    return axes


@per_results
def y_columns(results: Results) -> list[str]:
    """Return the numeric columns worth drawing: measures first, counts last.

    Columns that are empty, or constant over all runs, are left out.
    """
    # Row 0 has no task behind it, so a constant column there still differs from the rest.
    extents: dict[str, tuple[float, float]] = {}
    for run in results.runs_found:
        for column, (low, high) in run.extents.items():
            least, largest = extents.get(column, (low, high))
            extents[column] = min(low, least), max(high, largest)
    columns = [
        column
        for column, (low, high) in extents.items()
        if (low < high or column in _FIRST)
        and column not in _NEVER_Y
        and not column.startswith(LAYER_DRIFT)
    ]
    place = {column: number for number, column in enumerate(_FIRST)}

    def key(name: str) -> tuple[int, bool, bool]:
        column = results.column(name)
        return place.get(name, len(place)), column.better is None, column.dtype == "int64"

    return sorted(columns, key=key)


def points(frame: History, x: str, y: str) -> tuple[Floats, Floats]:
    """Return the evaluated points of one run: clock and value, without rows that lack a value."""
    if x not in frame or y not in frame:
        return np.empty(0), np.empty(0)
    xs, ys = (np.asarray(frame[column], dtype=np.float64) for column in (x, y))
    selected = np.isfinite(xs) & np.isfinite(ys)
    return xs[selected], ys[selected]


def last_values(frames: Sequence[History], y: str) -> Floats:
    """Return the last evaluated value of each run that has any, (n,)."""
    return np.array([values[-1] for _, values in _known(frames, "round", y)], np.float64)


def ends_by_seed(runs: Iterable[RunRecord], y: str) -> dict[int, float]:
    """Return the last evaluated value of each seed of an algorithm that has any."""
    values = {
        run.seed: run.cached(("last", y), partial(last_values, [history(run)], y)) for run in runs
    }
    return {seed: float(value[0]) for seed, value in values.items() if len(value)}


def final(frames: Sequence[History], y: str) -> tuple[float, float]:
    """Return mean and sample standard deviation of `last_values`; NaN of none, or of one."""
    last = last_values(frames, y)
    with np.errstate(over="ignore"):  # a run that diverged ends where it likes
        spread = float(last.std(ddof=1)) if len(last) > 1 else np.nan
    return float(last.mean()) if len(last) else np.nan, spread


@dataclass(frozen=True)
class Curve:
    """A mean over seeds with its band of one standard deviation, all (n,) arrays."""

    x: Floats
    mean: Floats
    low: Floats
    high: Floats

    def smoothed(self, weight: float) -> Curve:
        """Return it with all but the clock smoothed, see the function `smoothed`."""
        return Curve(self.x, *(smoothed(part, weight) for part in (self.mean, self.low, self.high)))


def curve(frames: Sequence[History], x: str, y: str, most: int = 600) -> Curve:
    """Average runs over a clock.

    Between two evaluations a run lies on the straight line that is drawn of it alone, so that the
    mean lies among the runs wherever it is drawn; after its end it holds its last value. The band
    is the sample standard deviation over runs, but goes no further than the runs themselves: of two
    or three it would exceed their range, on a log axis far below.

    Parameters
    ----------
    frames : sequence of mapping
        One `history` per seed.
    x, y : str
        Columns.
    most : int
        Most points of the result.
    """
    pairs = _known(frames, x, y)
    if not pairs:
        return Curve(*(np.empty(0) for _ in range(4)))
    grid = np.unique(np.concatenate([xs for xs, _ in pairs]))
    grid = thin(grid[grid >= max(xs[0] for xs, _ in pairs)], most)
    values = np.stack([_between(grid, *pair) for pair in pairs])
    mean = values.mean(axis=0)
    with np.errstate(over="ignore"):  # diverged runs may overflow
        spread = values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros_like(mean)
    low = np.maximum(mean - spread, values.min(axis=0))
    return Curve(grid, mean, low, np.minimum(mean + spread, values.max(axis=0)))


def _between(grid: Floats, x: Floats, y: Floats) -> Floats:
    """Return a run's values at points of a clock; where that stands still the last value counts."""
    last = np.r_[x[1:] > x[:-1], True]
    return np.interp(grid, x[last], y[last])


def _known(frames: Sequence[History], x: str, y: str) -> list[tuple[Floats, Floats]]:
    return [pair for pair in (points(frame, x, y) for frame in frames) if len(pair[0])]


def thin(values: npt.NDArray[_Kind], most: int) -> npt.NDArray[_Kind]:
    """Return at most `most` of the values, evenly spaced, with both ends."""
    if len(values) <= most:
        return values
    selected: npt.NDArray[_Kind] = values[
        np.unique(np.linspace(0, len(values) - 1, most).round().astype(int))
    ]
    return selected


def smoothed(values: Floats, weight: float) -> Floats:
    """Return the exponential mean of values (n,) so far, without a bias to the first one.

    Parameters
    ----------
    weight : float
        What the mean of the earlier values counts for, from 0 to less than 1.

    Examples
    --------
    >>> smoothed(np.array([4.0, 1.0, 1.0]), 0.5).tolist()
    [4.0, 2.0, 1.4285714285714286]
    """
    if not weight:
        return values
    made, mean = np.empty_like(values), 0.0
    for place, value in enumerate(values):
        mean = weight * mean + (1 - weight) * value
        made[place] = mean / (1 - weight ** (place + 1))
    return made


def crossing(frame: History, y: Column, target: float | None) -> int | None:
    """Return the place of the first row of a `history` that is as good as the target, or None."""
    good = _good(frame, y, target)
    return int(np.argmax(good)) if good.any() else None


def keeping(frame: History, y: Column, target: float | None) -> int | None:
    """Return the place of the evaluated row of a `history` from which on all reach the target.

    None if the last one does not.
    """
    known = _evaluated(frame, y)
    lost = np.flatnonzero(~_good(frame, y, target)[known])
    since = int(lost[-1]) + 1 if len(lost) else 0
    return int(known[since]) if since < len(known) else None


def before(frame: History, y: Column, place: int) -> int:
    """Return the place of the evaluated row before an evaluated row; itself if it is the first.

    What a row reaches was reached after the row before it.
    """
    earlier = _evaluated(frame, y)
    earlier = earlier[earlier < place]
    return int(earlier[-1]) if len(earlier) else place


def _evaluated(frame: History, y: Column) -> Ints:
    """Return the places of the rows with a value of a column."""
    if y.name not in frame:
        return np.empty(0, int)
    return np.flatnonzero(~np.isnan(np.asarray(frame[y.name], np.float64)))


def gap(rounds: History, clock: str, column: str) -> float:
    """Return the largest distance between two neighbouring values of a column, on a clock."""
    at, _ = points(rounds, clock, column)
    return float(np.diff(at).max(initial=0.0))


def _good(frame: History, y: Column, target: float | None) -> Bools:
    """Return which rows are as good as the target; those that are not evaluated are not."""
    values = np.asarray(frame.get(y.name, ()), np.float64)
    if target is None:
        return np.zeros(len(values), bool)
    return np.asarray(values >= target if y.better == "higher" else values <= target)


@per_results
def default_target(results: Results, y: str = "loss") -> float | None:
    """Return a target that most runs of most algorithms reach, but none at its start.

    It is the value at which the study stops a run, if that stopped one. Otherwise it is the worst
    last value of the runs that count, rounded to two digits towards the easy side, or to as many
    more as it takes to be better than their starts. The progress of an algorithm is that of its run
    in the middle. Algorithms count that made at least half of the progress of the best one, or
    where these are less than half of all, as much as the one in the middle, if that is a tenth; of
    each the runs that made at least two thirds of its progress. So neither a run that diverged nor
    a bad algorithm sets a target that all others pass at once. If no last value will do, the best
    values of the runs are tried. Baselines do not count; where many settings were swept, only the
    best of each algorithm does. It is None where no algorithm got better.
    """
    better = results.column(y).better
    if better is None:
        return None
    stop = stopped_at(results, y)
    if stop is not None:
        return stop
    sign = 1.0 if better == "higher" else -1.0
    leading = leaders(results, y)
    found = []
    for name in (name for name in results.rivals if name in leading):
        known = _known([history(run) for run in results.usable(name)], "round", y)
        found.append([sign * values for _, values in known if len(values) > 1])
    rivals = [runs for runs in found if runs]
    last = [np.array([(run[0], run[-1]) for run in runs]) for runs in rivals]
    best = [np.array([(run[0], run.max()) for run in runs]) for runs in rivals]
    value = _reachable(last, sign)
    return _reachable(best, sign) if value is None else value


def _reachable(rivals: Sequence[Floats], sign: float) -> float | None:
    """Return a target by the signed starts and ends (seeds, 2) of rivals; None if there is none."""
    steps = [runs[:, 1] - runs[:, 0] for runs in rivals]
    middle = [np.sort(made)[len(made) // 2] for made in steps]
    if max(middle, default=0.0) <= 0:
        return None
    least = np.clip(np.sort(middle)[len(middle) // 2], *(_OF_BEST * max(middle)))
    counted = np.concatenate([
        runs[made >= _OF_MIDDLE * typical]
        for runs, made, typical in zip(rivals, steps, middle, strict=True)
        if typical >= least
    ])  # fmt: skip
    start = float(counted[:, 0].max())
    ends = counted[counted[:, 1] > start, 1]
    if not len(ends):
        return None
    rounded = (round_easily(sign * ends.min(), sign < 0, n) for n in range(2, _DIGITS + 1))
    return next((value for value in rounded if sign * value > start), None)


@per_results
def targets(results: Results, y: str) -> dict[str, float | None]:
    """Return the `default_target` of each name: where a study has cases, that of its case."""
    by_case = {case: default_target(part, y) for case, part in results.cases.items()}
    shared = None if by_case else default_target(results, y)
    return {n: by_case[results.case_of[n]] if by_case else shared for n in results.names}


@per_results
def leaders(results: Results, y: str) -> tuple[str, ...]:
    """Return the names with the best last value among the settings of each algorithm in its case.

    The value is the mean over seeds; of an algorithm that has none, or always failed, it is the
    first name. These are all names, unless many settings were swept (`Results.families`).
    """
    best: dict[tuple[str, str], str] = {}
    values = {name: _end(results, name, y) for name in results.families}
    for name, family in results.families.items():
        place = results.case_of.get(name, ""), family
        if place not in best or values[name] < values[best[place]]:
            best[place] = name
    return tuple(best.values()) or results.names


def _end(results: Results, name: str, y: str) -> float:
    """Return the mean last value, less where it is better; infinity if there is none."""
    mean, _ = final([history(run) for run in results.usable(name)], y)
    if np.isnan(mean) or name in results.failed:
        return float("inf")
    return -mean if results.column(y).better == "higher" else mean


def stopped_at(results: Results, column: str) -> float | None:
    """Return the value of a column that ended runs; None if it ended none."""
    ended = any(run.info.get("stopped_by") == column for run in results.runs_found)
    return _stop(results, column) if ended else None


def _stop(results: Results, column: str) -> float | None:
    """Return the value of a column that ends a run; None if there is none, or several."""
    scenarios = [run.info.get("scenario") or {} for run in results.runs_found]
    rules = [scenario.get("stop") or {} for scenario in scenarios]
    values = {({**rule, **(rule.get("metrics") or {})}).get(column) for rule in rules}
    return values.pop() if len(values) == 1 else None


@per_results
def first_column(results: Results) -> str:
    """Return the column that comes first.

    It is the gap to the optimum if the study asks for it, or the one that ends runs; where most
    algorithms give clients models of their own, the accuracy of nodes if it is measured, or how
    good these models are; else the loss, or without one the first that can be won.
    """
    known = y_columns(results)
    scenarios = [run.info.get("scenario") or {} for run in results.runs_found]
    asked = any((scenario.get("evaluate") or {}).get("gap") for scenario in scenarios)
    if "loss_gap" in known and (asked or _stop(results, "loss_gap") is not None):
        return "loss_gap"
    if len(ending := [column for column in known if _stop(results, column) is not None]) == 1:
        return ending[0]
    for column in ("node_accuracy", "personal_accuracy", "personal_loss"):
        if column in known and 2 * _having(results, column) > len(results.rivals):
            return column
    if "loss" in known or not known:
        return "loss"
    return next((c for c in known if default_target(results, c) is not None), known[0])


def _having(results: Results, column: str) -> int:
    """Return the number of rivals with a recorded column."""
    rounds = results.rounds
    names = rounds.loc[rounds[column].notna(), "name"]
    return len(set(names) & set(results.rivals))


def round_easily(value: float, up: bool, digits: int = 2) -> float:
    """Round to `digits` significant digits, always up or always down.

    Examples
    --------
    >>> round_easily(0.05312, up=True), round_easily(0.9489, up=False)
    (0.054, 0.94)
    """
    if value == 0:
        return 0.0
    unit = 10.0 ** (np.floor(np.log10(abs(value))) - digits + 1)
    steps = value / unit
    multiple = np.ceil(steps - 1e-9) if up else np.floor(steps + 1e-9)
    return float(f"{multiple * unit:.{digits + 2}g}")
