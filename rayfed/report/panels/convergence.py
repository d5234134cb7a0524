"""Losses and other columns over any clock, with a target that can be moved."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from html import escape
from textwrap import wrap
from typing import Any, ClassVar

import numpy as np
import plotly.graph_objects as go

from rayfed.core.arrays import Floats
from rayfed.core.columns import Column
from rayfed.report.figures import marks
from rayfed.report.figures.labels import label_ends, plain
from rayfed.report.figures.palette import LIGHT, LineStyle
from rayfed.report.figures.style import (
    FONT_SIZE,
    algorithm_styles,
    canvas,
    fitted,
    line,
    log_helps,
    x_scales,
)
from rayfed.report.panels.base import (
    MOST_CASES,
    PageSource,
    Panel,
    Section,
    Unique,
    figure_json,
    short,
    short_columns,
)
from rayfed.report.read.curves import (
    X_AXES,
    Curve,
    History,
    clocks,
    crossing,
    curve,
    default_target,
    history,
    leaders,
    y_columns,
)
from rayfed.report.read.results import Results, RunRecord

HEIGHT, FACET = 440, 300
_FEW_ROUNDS = 7  # no ticks between rounds where there are so few
_FEW_SEEDS, _FEW_NAMES = 5, 4  # beyond these, single seeds are a tangle
SEED = {"opacity": 0.7, "hovertemplate": "%{y:.3g} at %{x:.4~g}"}
"""How the line of a seed is drawn that stands for itself."""
OTHERS = {"color": LIGHT["strip"], "dash": "solid", "width": 1}
"""The line of a swept setting that does not lead."""
FOLD = "cases"
"""The fold of the cases that are not drawn at once."""
_LABEL = (0.3, 0.1)  # of the width and the height of the axes, for the name of the target
MOST_NUMBERS = 400_000  # of all runs and columns together


def convergence(
    results: Results,
    x: str = "round",
    y: str = "loss",
    log: bool | None = None,
    target: float | None = None,
    smooth: float = 0.0,
    seeds: bool = False,
) -> go.Figure:
    """Draw a column over time, mean over seeds and band of one standard deviation.

    The band goes no further than the seeds. Where these are few they are drawn too, faintly.
    Where many settings were swept, only the best of each algorithm (`curves.leaders`) has its
    colour and a band; all others are thin and grey.

    Parameters
    ----------
    results : Results
        A result folder.
    x : str
        The clock: ``round``, ``time_s``, ``bytes_up``, ``updates``, ``communications`` or
        ``epsilon``.
    y : str
        Any numeric column of the rounds.
    log : bool, optional
        Logarithmic y axis. If None: where all means are positive and span a factor of 10.
    target : float, optional
        Where the target line lies. If None: `curves.default_target`.
    smooth : float
        Weight of an exponential mean along each line, see `series.smoothed`. Where the target was
        reached is that of the values as they are.
    seeds : bool
        Whether single seeds are drawn in place of their mean and band.

    Returns
    -------
    Figure
        Every trace names its algorithm and its part in ``meta``.
    """
    scale = x_scales(results)[x]
    target = default_target(results, y) if target is None else target
    histories = {n: [history(run) for run in results.usable(n)] for n in results.names}

    def of(frames: Sequence[History]) -> Curve:
        values = curve(frames, x, y).smoothed(smooth)
        return replace(values, x=values.x / scale["worth"])

    curves = {name: of(frames) for name, frames in histories.items()}
    faint = shows_seeds(results)
    drawn = {name: line for name, line in curves.items() if len(line.x)}
    end = max((float(c.x[-1]) for c in drawn.values()), default=1.0 / scale["worth"])
    swept, leading = bool(results.families), leaders(results, y)
    hovermode = "closest" if swept or seeds else "x unified"
    figure = canvas(HEIGHT, hovermode=hovermode, hoverdistance=-1)
    styles = algorithm_styles(results)
    singles: dict[str, list[Curve]] = {}
    # What comes first lies below. Plotly cuts dots at the edge in all layers but one (`zorder`).
    order = sorted(curves, key=lambda name: name in leading)
    for name in order:
        alone = seeds and name in leading
        for run in results.usable(name) if alone or (faint and not seeds) else ():
            single = of([history(run)])
            add_seed(figure, run, styles[name], single, end, alone)
            singles.setdefault(name, []).append(single)
    for name in order:
        failed = ended_at_once(results.usable(name))
        if failed or not (seeds and name in leading):
            faded = None if not swept else name not in leading
            add_curve(figure, name, styles[name], curves[name], end, failed, faded)
    for name, frames in histories.items():
        compete = name in leading and name not in results.baselines
        at = _reached(frames, x, results.column(y), target) if compete else []
        add_crossings(figure, name, styles[name], [a / scale["worth"] for a in at], target)
    # An algorithm of which every run failed has left any scale, so it sets none.
    sound = [name for name in drawn if name not in results.failed] or list(drawn)
    apart = singles if seeds else {}
    scaled = [c for name in sound for c in apart.get(name, [drawn[name]])]
    if log is None:
        log = log_helps(results.column(y), [drawn[name].mean for name in sound])
    _set_x(figure, x, scale, end)
    spread = [part for c in scaled for part in (c.low, c.high)]
    figure.update_yaxes(fitted(results.column(y).label, spread, log))
    _add_target(figure, target, results.column(y), [_level(c, end) for c in scaled])
    if swept:  # the page draws other lines so where another column has other leaders
        figure.update_layout(meta=figure.layout.meta | {"others": OTHERS})
    label_ends(figure, {n: float(c.mean[-1]) for n, c in drawn.items() if n in leading}, styles)
    return figure


def _reached(frames: Sequence[History], x: str, y: Column, target: float | None) -> list[float]:
    """Return where on a clock runs were first as good as the target, of those that were."""
    if target is None:
        return []
    places = [(frame, crossing(frame, y, target)) for frame in frames]
    reached = [(frame, place) for frame, place in places if place is not None]
    return [float(frame[x][place]) if x in frame else np.nan for frame, place in reached]


def _set_x(figure: go.Figure, x: str, scale: Mapping[str, Any], end: float) -> None:
    """Let the x axis be a clock, from the start to an end in its unit."""
    reading = f"{X_AXES[x].title} %{{x:.4~g}} {scale['unit']}".strip()
    figure.update_xaxes(
        title_text=scale["title"], range=[0, end], showgrid=False,
        dtick=1 if x == "round" and end <= _FEW_ROUNDS else None,
        unifiedhovertitle_text=reading,
    )  # fmt: skip


def shows_seeds(results: Results) -> bool:
    """Return whether single seeds are drawn: where they are several, but few enough to read."""
    most = max(len(results.usable(name)) for name in results.names)
    return 1 < most <= _FEW_SEEDS and len(results.names) <= _FEW_NAMES


def ended_at_once(runs: Sequence[RunRecord]) -> str:
    """Return why runs ended before their first round, empty if one of them had any."""
    if not runs or any(run.status != "failed" or run.length > 1 for run in runs):
        return ""
    return str(runs[0].info.get("reason") or "no reason is recorded")


def add_curve(
    figure: go.Figure, name: str, style: LineStyle, values: Curve, end: float,
    failed: str = "", faded: bool | None = None,
) -> None:  # fmt: skip
    """Add a mean line and its band; a cross where all runs failed before their first round.

    Parameters
    ----------
    failed : str
        Why they did.
    faded : bool, optional
        Of swept settings whether this one does not lead: it is thin and grey then, with no band.
    """
    if failed:
        marks.dots(
            figure, "failed", values.x, values.mean,
            {"symbol": "x", "size": 10, "color": style.light}, of=name, name=plain(name),
            hovertemplate="%{y:.3g}, failed before its first round:<br>%{text}",
            text=["<br>".join(wrap(escape(failed), 60))] * len(values.x),
        )  # fmt: skip
        return
    values = _level(values, end)
    x, mean, low, high = values.x, values.mean, values.low, values.high
    marks.lines(
        figure, "band", np.r_[x, x[::-1]], np.r_[high, low[::-1]],
        {"width": 0, "color": style.light}, of=name, fill="toself", fillcolor=style.light,
        opacity=0.16, visible=False if faded else None,
    )  # fmt: skip
    marks.lines(
        figure, "mean", x, mean, OTHERS if faded else line(style), of=name, name=plain(name),
        hovertemplate="%{y:.3g}" if faded is None else SEED["hovertemplate"],
        mode="markers" if len(x) == 1 else "lines",
    )  # fmt: skip


def add_seed(
    figure: go.Figure, run: RunRecord, style: LineStyle, values: Curve, end: float,
    alone: bool = False,
) -> None:  # fmt: skip
    """Add the line of one seed: faint, or `alone`."""
    if ended_at_once([run]):
        return
    values = _level(values, end)
    meta = {"name": run.name, "part": "seed", "seed": run.seed}
    about: dict[str, Any] = {"opacity": 0.35, "meta": meta}
    about["line"] = {"color": style.light, "width": 1}
    if alone:
        about |= SEED | {"line": line(style, 1.5)}
        about["name"] = f"{plain(run.name)} seed {run.seed}"
    marks.lines(figure, "seed", values.x, values.mean, **about)


def add_crossings(
    figure: go.Figure, name: str, style: LineStyle, at: Sequence[float], target: float | None
) -> None:
    """Add a diamond on the target line wherever a run reached it."""
    rim = {"color": LIGHT["background"], "width": 1.5}
    marker = {"symbol": "diamond", "size": 9, "color": style.light, "line": rim}
    marks.dots(figure, "crossing", at, [target] * len(at), marker, of=name)


def _level(values: Curve, end: float) -> Curve:
    """Return a curve; a curve at a single time becomes a level line."""
    if len(values.x) != 1:
        return values
    parts = (values.mean, values.low, values.high)
    return Curve(np.array([0.0, end]), *(np.repeat(part, 2) for part in parts))


def _label_place(
    figure: go.Figure, target: float | None, column: Column, curves: Sequence[Curve]
) -> dict[str, str]:
    """Return the end and the side of the target's line where its name lies on the fewest curves.

    Curves start worse than the target and end better, so these quarters come last.
    """
    axis, higher = figure.layout.yaxis, column.better == "higher"
    low, high = axis.range or (0.0, 1.0)
    log, end = axis.type == "log", figure.layout.xaxis.range[1]

    def share(values: Any) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            at = np.asarray(values, np.float64)
            places: Floats = ((np.log10(np.maximum(at, 0)) if log else at) - low) / (high - low)
            return places

    at = float(share(np.nan if target is None else target))
    better, worse = ("bottom", "top") if higher else ("top", "bottom")

    def covered(position: str, anchor: str) -> float:
        bottom = at if anchor == "bottom" else at - _LABEL[1]
        if not 0 <= bottom <= 1 - _LABEL[1]:
            return np.inf
        left = 0.0 if position == "start" else 1 - _LABEL[0]
        return sum(_overlap(c.x / end, share(c.low), share(c.high), (left, bottom)) for c in curves)

    places = [("start", better), ("end", worse), ("start", worse), ("end", better)]
    position, anchor = min(places, key=lambda place: covered(*place))
    return {"textposition": position, "yanchor": anchor}


def _overlap(x: Floats, low: Floats, high: Floats, corner: tuple[float, float]) -> float:
    """Return the width over which a band lies on the name of the target, in shares of the axes."""
    left, bottom = corner
    wide = np.minimum(x[1:], left + _LABEL[0]) - np.maximum(x[:-1], left)
    under = np.fmin(low[:-1], low[1:]) < bottom + _LABEL[1]
    over = np.fmax(high[:-1], high[1:]) > bottom
    return float(np.sum(wide, where=(wide > 0) & under & over))


def _add_target(
    figure: go.Figure, target: float | None, column: Column, curves: Sequence[Curve]
) -> None:
    label: dict[str, Any] = {"texttemplate": "target %{y0:.6~g}"}
    label |= _label_place(figure, target, column, curves)
    label |= {"font": {"size": FONT_SIZE - 1, "color": LIGHT["muted"]}}
    dashed = {"color": LIGHT["muted"], "width": 1.5, "dash": "2px,2px"}
    shape = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "line": dashed, "label": label}
    # The page draws the line anew where it is moved to, and lines of seeds by themselves.
    figure.update_layout(meta={"target": shape, "seed": SEED})
    if target is not None:
        figure.add_shape(shape, y0=target, y1=target)


def curve_data(
    results: Results,
    numbers: int = MOST_NUMBERS,
    whole: Results | None = None,
    drawn: Collection[str] | None = None,
) -> dict[str, Any]:
    """Return the script's data for any clock and any column, and for a moved target.

    Parameters
    ----------
    results : Results
        A result folder.
    numbers : int
        About how many numbers may be stored of the means and of the runs; long runs are thinned to
        200 to 2,000 rows each, means to 100 to 600 points.
    whole : Results, optional
        If these are the results of a case, all of the study, which has all columns and clocks.
    drawn : collection of str, optional
        The columns with curves and values; all if None.

    Returns
    -------
    dict
        ``clocks`` and ``columns`` with their titles; ``curves``: by column, clock and algorithm the
        place of the clock's values among ``grids``, the mean over seeds and, of several seeds, the
        ends of its band; ``runs`` with the columns of each run, by which a target is moved; and
        ``thinned``: to how many rounds the longest run was thinned, None if none was.
    """
    columns, axes = y_columns(whole or results), x_scales(whole or results)
    given = [column for column in columns if drawn is None or column in drawn]
    histories = {n: [(run, history(run)) for run in results.usable(n)] for n in results.names}
    runs = [pair for pairs in histories.values() for pair in pairs]
    share = numbers // max(1, len(runs) * (len(columns) + len(X_AXES)))
    rows = int(np.clip(share, 200, 2000))
    scales = {x: scaled | {"plain": X_AXES[x].title} for x, scaled in axes.items()}
    longest = max((len(frame["round"]) for _, frame in runs), default=0)
    lines = 3 * max(1, len(histories) * len(columns) * len(scales))
    most, grids = int(np.clip(numbers // lines, 100, 600)), Unique()

    def stored(name: str, x: str, y: str) -> list[Any]:
        frames = [frame for _, frame in histories[name]]
        values = curve(frames, x, y, most)
        parts = (values.mean, values.low, values.high)[: 3 if len(frames) > 1 else 1]
        return [grids.place(short(values.x)), *(short(part, 6) for part in parts)]

    return {
        "thinned": rows if longest > rows else None,
        "clocks": scales,
        "columns": {name: _column(results, name, name in given) for name in columns},
        "curves": {
            y: {x: {name: stored(name, x, y) for name in histories} for x in scales} for y in given
        },
        "grids": grids.values,
        "runs": [
            {"name": run.name, "seed": run.seed}
            | {"data": short_columns(frame, [*scales, *given], rows)}
            for run, frame in runs
        ],
    }


def _column(results: Results, name: str, is_drawn: bool) -> dict[str, Any]:
    column = results.column(name)
    shown = {"title": column.title, "label": column.label, "better": column.better}
    target = default_target(results, name) if is_drawn else None
    return shown | {"target": target, "leaders": leaders(results, name) if is_drawn else ()}


class ConvergencePanel(Panel):
    """The main figure with its buttons; the headline above it is its title."""

    name: ClassVar[str] = "convergence"
    section = Section.RESULTS
    rank = 0
    draws = (convergence,)

    @property
    def applies(self) -> bool:
        """Whether any column is worth drawing."""
        return bool(y_columns(self.results))

    @cached_property
    def payload(self) -> dict[str, Any]:
        """For each case, or the whole, a figure, and its data for any other choice.

        Of cases in the fold that the reader of a dashboard has not opened the figure is None.
        """
        parts = enumerate(self.source.parts)
        return {"parts": [self._part(source, self._draws(place)) for place, source in parts]}

    def _draws(self, place: int) -> bool:
        """Return whether a case, by its place, has a figure."""
        asked = self.source.asked
        return place < MOST_CASES or asked is None or FOLD in asked.opened

    def _part(self, source: PageSource, drawn: bool) -> dict[str, Any]:
        """Return the payload of a case or of the whole, cached with its results."""
        whole = tuple(y_columns(self.results)), json.dumps(x_scales(self.results))
        key = (
            type(self), source.y, source.goal, *source.styles, len(self.source.parts),
            *self.source.drawn, *whole,
        )  # fmt: skip
        about = source.results.cached(key, lambda: self._about(source))
        figure = (
            source.results.cached((*key, FOLD), lambda: self._figure(source)) if drawn else None
        )
        return about | {"figure": figure}

    def _about(self, source: PageSource) -> dict[str, Any]:
        numbers = MOST_NUMBERS // len(self.source.parts)
        curves = curve_data(source.results, numbers, self.results, self.source.drawn)
        if source.y in curves["columns"]:
            curves["columns"][source.y]["target"] = source.target
        return {"curves": curves, "names": source.about}

    def _figure(self, source: PageSource) -> dict[str, Any]:
        x = next(iter(clocks(self.results)))
        figure = convergence(source.results, x=x, y=source.y, target=source.target)
        if source.whole is not None:
            figure.update_layout(height=FACET)
        return figure_json(figure)

    @property
    def facets(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Each case that has a figure with its answer; the whole without words, as it is above."""
        cases = self.source.cases.items()
        parts = zip(cases or [("", self.source)], self.payload["parts"], strict=True)
        return [
            (case, source.answer if case else "", part["figure"])
            for (case, source), part in parts
            if part["figure"] is not None
        ]

    @property
    def folded(self) -> list[str]:
        """The names of the cases in the fold."""
        return [*self.source.cases][MOST_CASES:]

    @property
    def clocks(self) -> list[tuple[str, str]]:
        """The choices of an x axis: columns with their titles."""
        return [(x, axis.title) for x, axis in clocks(self.results).items()]

    @property
    def columns(self) -> list[tuple[str, str]]:
        """The choices of a y axis: columns with their titles."""
        entries: Mapping[str, Any] = self.payload["parts"][0]["curves"]["columns"]
        return [(column, entry["title"]) for column, entry in entries.items()]

    @property
    def faint(self) -> bool:
        """Whether single seeds are drawn."""
        return any(shows_seeds(source.results) for source in self.source.parts)
