"""The cost of slow mixing of a walk: rounds to a goal against relaxation time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.core.columns import Column
from rayfed.report.figures import marks
from rayfed.report.figures.labels import plain
from rayfed.report.figures.palette import LIGHT, LineStyle
from rayfed.report.figures.style import (
    FONT_SIZE,
    algorithm_styles,
    canvas,
    end_title,
    line,
    log_ticks,
)  # fmt: skip
from rayfed.report.panels.base import FigurePanel, Section
from rayfed.report.panels.phrases import listed, quoted
from rayfed.report.read import units
from rayfed.report.read.curves import crossing, history, stopped_at, y_columns
from rayfed.report.read.results import Results, RunRecord
from rayfed.report.read.settings import short_keys
from rayfed.report.read.sweeps import differing_facts

_OF_WALK = ("topology.", "participation.select.rule.", "select.rule.")
_SPAN = 1.5  # smallest ratio of the relaxation times on one line
_CONFIDENCE = 0.95
HEIGHT = 400
_TEXTS = 12  # most dots next to which their walk can be written
_ROOM = 96  # pixels at the right for the names of lines


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
    """Points of a sweep with walking servers and runs that end at a goal.

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


def find(results: Results, column: str | None = None) -> Mixing:
    """Return the cost of mixing.

    Points share a line only if nothing but the walk differs: larger graphs mix more slowly and also
    have more clients to visit, and a line across sizes would combine both effects.

    Parameters
    ----------
    results : Results
        A result folder.
    column : str, optional
        The column that ends the runs. If None, the first column of the rounds that shows it.

    Raises
    ------
    NothingToDraw
        If a study does not show it.
    """
    for name in y_columns(results) if column is None else [column]:
        goal = stopped_at(results, name)
        points = pd.DataFrame() if goal is None else _points(results, name, goal)
        if goal is None or not len(points):
            continue
        series = points.groupby("series", sort=False)
        fits = {str(label): fit(rows[rows["reached"]]) for label, rows in series}
        if powers := {label: power for label, power in fits.items() if power is not None}:
            return Mixing(results.column(name), goal, points, powers)
    raise marks.NothingToDraw("no walks that differ, all else alike, whose runs end at one goal")


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
    fitted = points[points["group"].isin(spans.index[spans >= _SPAN])]
    free = len(fitted) - fitted["group"].nunique() - 1
    if free < 1:
        return None
    from scipy.stats import t  # imported late: scipy.stats is slow to import

    logs = fitted[["relaxation", "rounds"]].transform(np.log)
    means = logs.groupby(fitted["group"]).transform("mean")
    x, y = (logs - means).to_numpy().T
    power = float(x @ y / (x @ x))
    error = float(np.sqrt(np.sum((y - power * x) ** 2) / free / (x @ x)))
    reach = float(t.ppf((1 + _CONFIDENCE) / 2, free)) * error
    bases = (means["rounds"] - power * means["relaxation"]).groupby(fitted["group"]).first()
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
    settings = {run.setting for run in results.runs_found}
    first = {name: results.of(name)[0] for name in frame["name"]}
    kind = "label" if len(settings) > 1 else "algorithm"
    frame["series"] = [str(first[name].info.get(kind)) for name in frame["name"]]
    texts = [_texts({n: first[n] for n in rows["name"]}) for _, rows in frame.groupby("series")]
    return frame.merge(pd.concat(texts), on="name")


def _point(runs: list[RunRecord], column: Column, goal: float) -> dict[str, Any]:
    """Return relaxation time and rounds of one point."""
    frames = [history(run) for run in runs]
    at = [crossing(frame, column, goal) for frame in frames]
    reached = bool(at) and all(place is not None for place in at)
    places = zip(frames, at, strict=True)
    ends = [frame["round"][-1 if place is None else place] for frame, place in places]
    return {
        "relaxation": _relaxation(runs),
        "rounds": float(np.mean(ends)) if ends else np.nan,
        "reached": reached,
    }


def _relaxation(runs: list[RunRecord]) -> float:
    """Return 1 / (1 - lambda_2), lambda_2 the mean over recorded rounds and seeds; NaN if unknown.

    A mean of 1 / (1 - lambda_2) would be infinite if a single graph is disconnected.
    """
    known = [run.walk.lambda_2[run.walk.graph] for run in runs if run.walk is not None]
    if not known or len(known) < len(runs):
        return np.nan
    middle = float(np.mean([values.mean() for values in known]))
    return 1 / (1 - middle) if middle < 1 else np.nan


def _texts(runs: dict[str, RunRecord]) -> pd.DataFrame:
    """Describe differences between runs of one algorithm: ``group`` and ``walk``."""
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


def mixing(results: Results, column: str | None = None) -> go.Figure:
    """Draw the rounds to a goal of every point of a sweep over the mixing time of its walk.

    Parameters
    ----------
    results : Results
        A result folder.
    column : str, optional
        What ends the runs. If None: the first of the rounds' columns that shows it.

    Returns
    -------
    Figure
        One dot for each point of the sweep, open triangles for points that did not reach the goal,
        and a line of least squares through points that differ in their walk alone.

    Raises
    ------
    NothingToDraw
        If the study does not show the cost of mixing; see `find`.
    """
    return _drawn(results, find(results, column))


def _drawn(results: Results, walks: Mixing) -> go.Figure:
    figure = canvas(HEIGHT, hovermode="closest").update_layout(margin_r=_ROOM)
    styles = algorithm_styles(results)
    spans = [_extent(walks.points[values]) for values in ("relaxation", "rounds")]
    (left, right), _ = spans
    past, edge = 10 ** (0.02 * (right - left)), 10 ** (left + 0.25 * (right - left))
    for series, points in walks.points.groupby("series", sort=False):
        style, power = styles[points["name"].iloc[0]], walks.powers.get(str(series))
        if power:
            _add_lines(figure, points, power, style, past)
        for _, dots in points.groupby("reached", sort=False):
            _add_dots(figure, dots, power, style, edge if len(walks.points) <= _TEXTS else None)
    for axis, span in zip(("xaxis", "yaxis"), spans, strict=True):
        figure.layout[axis].update(type="log", range=span, **log_ticks(span))
    figure.update_xaxes(title_text="relaxation time of the walk, 1/(1 - λ₂), in moves")
    return figure.update_yaxes(title_text=end_title(results, walks.column.name))


def _extent(values: pd.Series) -> list[float]:
    """Return the range of a log axis, with room for texts next to the outermost dots."""
    low, high = (float(np.log10(end)) for end in (values.min(), values.max()))
    margin = 0.1 * (high - low) or 0.1
    return [low - 2 * margin, high + margin]


def _add_lines(
    figure: go.Figure, points: pd.DataFrame, power: Power, style: LineStyle, past: float
) -> None:
    """Add the lines of an algorithm, each reaching a factor past the points it was fitted to."""
    for group, base in power.rounds.items():
        reached = points[points["reached"] & (points["group"] == group)]["relaxation"]
        x = np.array([reached.min() / past, reached.max() * past])
        font = {"color": style.light, "size": FONT_SIZE}
        marks.texts(
            figure, "line", x, base * x**power.value, ["", f"\u00a0{plain(group)}"], font,
            of=points["series"].iloc[0], mode="lines+text", line=line(style, 1.5),
            textposition="middle right",
        )  # fmt: skip


def _add_dots(
    figure: go.Figure, dots: pd.DataFrame, power: Power | None, style: LineStyle, edge: float | None
) -> None:
    """Add dots that all reached the goal, or all did not, their texts on the far side of a line.

    Up to `edge` there is no room at the left; without one dots have no texts.
    """
    reached = bool(dots["reached"].iloc[0])
    x, y = dots["relaxation"].to_numpy(), dots["rounds"].to_numpy()
    base = dots["group"].map(power.rounds if power else {}).to_numpy(float)
    edge, texts = edge or 0.0, edge is not None
    below = y < base * x ** (power.value if power else 0.0)
    symbol = "circle" if reached else "triangle-up-open"
    marks.dots(
        figure, "dots" if reached else "missed", x, y,
        {"size": 9, "color": style.light, "symbol": symbol}, "%{customdata}",
        of=dots["series"].iloc[0], mode="markers+text" if texts else "markers",
        text=[plain(text) for text in dots["walk"]],
        # To different sides, so that a dot below one line and one above the next stay apart.
        textposition=[
            "bottom right" if under else "top center" if first else "top left"
            for under, first in zip(below, x < edge, strict=True)
        ],
        textfont={"color": LIGHT["muted"], "size": FONT_SIZE - 1},
        customdata=[
            f"{plain(row['name'], 60)}<br>relaxation time {units.number(row['relaxation'])} moves"
            f"<br>{units.count(row['rounds'])} rounds{'' if reached else ', not reached'}"
            for _, row in dots.iterrows()
        ],
    )  # fmt: skip


class MixingPanel(FigurePanel):
    """A dot for each walk that was tried, and the power law through them."""

    name: ClassVar[str] = "mixing"
    section = Section.SETTINGS
    rank = 10
    draws = (mixing,)
    heading = "Rounds against the relaxation time of the walk"
    by_case = False

    @cached_property
    def mixing(self) -> Mixing:
        """The walks with their rounds."""
        return find(self.results)

    @property
    def powers(self) -> str:
        """The power of the relaxation time for each algorithm, with its interval."""
        return listed(
            [
                f"{power.value:.2f} for {quoted(series)} ({power.low:.2f} to {power.high:.2f})"
                for series, power in self.mixing.powers.items()
            ]
        )

    def figure(self) -> go.Figure:
        """Return `figures.mixing`."""
        return _drawn(self.results, self.mixing)

    @property
    def key(self) -> list[tuple[int, LineStyle, str]]:
        """The key of the lines, empty where there is one."""
        firsts = self.mixing.points.drop_duplicates("series")
        return self.source.lines(firsts["series"], firsts["name"])
