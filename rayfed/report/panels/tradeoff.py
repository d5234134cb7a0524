"""What a better end costs: a dot a setting, by bytes, simulated time and epsilon."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import plotly.graph_objects as go

from rayfed.core.arrays import Floats
from rayfed.report.figures import marks
from rayfed.report.figures.facets import axis_names
from rayfed.report.figures.labels import plain
from rayfed.report.figures.palette import LIGHT
from rayfed.report.figures.style import algorithm_styles, canvas, fitted, x_scales
from rayfed.report.html import keep_units
from rayfed.report.panels.base import FigurePanel, Section, figure_json
from rayfed.report.panels.phrases import ALIKE, quoted
from rayfed.report.read.results import Results
from rayfed.report.read.series import EPSILON, X_AXES, first_column, history, points, y_columns

COSTS = ("bytes_up", "time_s", EPSILON)
_ROW, _GAP, _HEAD = 230, 62, 20  # pixels: of axes with their ticks, of these, above the first
_CODED = 1.2  # bytes an update that differ by more are shown


def tradeoff(results: Results, column: str | None = None) -> go.Figure:
    """Draw the last value of each setting against what it cost until then.

    Parameters
    ----------
    results : Results
        A result folder.
    column : str, optional
        A column of the rounds. If None: the one that comes first on the page.

    Returns
    -------
    Figure
        Axes below each other: uploaded bytes, simulated time and epsilon, as far as they differ. A
        large dot at the means over seeds, small ones at the seeds. The grey line is the front: none
        is better at less.

    Raises
    ------
    NothingToDraw
        If no setting has a last value, or all cost the same.
    """
    column = column or first_column(results)
    ends = _ends(results, column)
    if not ends:
        raise marks.NothingToDraw(f"no costs of {column} differ")
    height = _ROW * len(ends) + _HEAD
    figure, scales = canvas(height), x_scales(results)
    like = [figure.layout[key].to_plotly_json() for key in ("xaxis", "yaxis")]
    for place, (cost, pairs) in enumerate(ends.items()):
        x, y = axis_names(place)
        scale = scales[cost]
        in_units = {name: each / [[scale["worth"]], [1.0]] for name, each in pairs.items()}
        _draw(figure, in_units, results, column, {"xaxis": x, "yaxis": y})
        top = 1 - (place * _ROW + _HEAD) / height
        xs, ys = ([pair[k] for pair in in_units.values()] for k in (0, 1))
        log = False if "accuracy" in column else None
        across = fitted(scale["title"], xs) | {"anchor": y}
        up = fitted(f"final {results.column(column).label}", ys, log)
        up |= {"anchor": x, "domain": [top - (_ROW - _GAP) / height, top]}
        for key, own, axis in zip("xy", like, (across, up), strict=True):
            figure.layout[f"{key}axis{x[1:]}"] = own | axis
    return figure.update_layout(hovermode="closest", margin={"t": 10, "b": 10})


def _draw(
    figure: go.Figure,
    pairs: Mapping[str, Floats],
    results: Results,
    column: str,
    axes: Mapping[str, str],
) -> None:
    """Draw the front, and a large dot at the means and small ones at the seeds of each setting."""
    styles, means = algorithm_styles(results), _means(pairs)
    steps = np.array([means[name] for name in _front(means, results.column(column).better)])
    grey = {"color": LIGHT["strip"], "width": 2, "shape": "hv"}
    marks.lines(figure, "front", steps[:, 0], steps[:, 1], grey, **axes)
    for name, (costs, values) in pairs.items():
        hover = f"{plain(name)}<br>%{{x:.4~g}}, %{{y:.4~g}}"
        dot: dict[str, Any] = {"color": styles[name].light, "line": marks.NO_LINE}
        small = dot | {"size": 5, "opacity": 0.45}
        marks.dots(figure, "seeds", costs, values, small, of=name, **axes)
        rim = {"size": 11, "line": {"width": 1.5, "color": LIGHT["background"]}}
        x, y = means[name][:, None].tolist()
        marks.dots(figure, "mean", x, y, dot | rim, hover, of=name, **axes)


def _ends(results: Results, column: str) -> dict[str, dict[str, Floats]]:
    """Return cost and value (2, seeds) of each setting by each cost, as far as costs differ."""
    found: dict[str, dict[str, Floats]] = {}
    for cost in COSTS:
        ends = {}
        for name in (name for name in results.names if name not in results.failed):
            runs = [np.array(points(history(run), cost, column)) for run in results.usable(name)]
            ends[name] = np.hstack([np.empty((2, 0)), *(run[:, -1:] for run in runs)])
        ends = {name: pairs for name, pairs in ends.items() if pairs.size}
        costs = [pairs[0].mean() for pairs in ends.values()]
        if len(costs) > 1 and max(costs) > ALIKE * min(costs):
            found[cost] = ends
    return found


def _means(pairs: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return mean cost and value (2,) of each setting."""
    return {name: each.mean(axis=1) for name, each in pairs.items()}


def _front(means: Mapping[str, Floats], better: str | None) -> list[str]:
    """Return the settings of which none is better at less, by cost."""
    best, front = np.inf, []
    sign = -1 if better == "higher" else 1
    for name in sorted(means, key=lambda name: (means[name][0], sign * means[name][1])):
        if sign * means[name][1] < best:
            best = sign * means[name][1]
            front.append(name)
    return front


def title(results: Results, column: str) -> str:
    """Return the front of the first cost."""
    cost, pairs = next(iter(_ends(results, column).items()))
    front = _front(_means(pairs), results.column(column).better)
    shown = f"{results.column(column).title} against {X_AXES[cost].title}"
    if len(front) == 1:
        return f"{quoted(front[0])} ends best and costs least: {shown}"
    least, best = quoted(front[0]), quoted(front[-1])
    between = len(front) - 2
    more = f", {between} more between them" if between else ""
    return f"From {least}, which costs least, to {best}, which ends best{more}: {shown}"


def _per_update(results: Results, names: Collection[str]) -> list[float]:
    """Return the bytes that an update of each of some algorithms takes."""
    found = []
    for name in names:
        frames = [run.rounds for run in results.usable(name) if "bytes_up" in run.rounds]
        used = sum(float(frame["participants"].sum()) for frame in frames)
        if used:
            found.append(sum(float(frame["bytes_up"].sum()) for frame in frames) / used)
    return found


class TradeoffPanel(FigurePanel):
    """A dot a setting: how it ended against what that cost, with the front."""

    name: ClassVar[str] = "tradeoff"
    section = Section.RESULTS
    rank = 35
    draws = (tradeoff,)
    keyed = True
    labelled = False
    how = (
        "A large dot is the mean over seeds of a setting, small ones are its seeds. Along the grey "
        "line none ends better at less."
    )

    @property
    def applies(self) -> bool:
        """Whether what travels differs: epsilon is recorded, or bytes an update differ."""
        sizes = _per_update(self.results, self.results.rivals)
        coded = len(sizes) > 1 and max(sizes) > _CODED * min(sizes)
        if not (coded or EPSILON in self.results.rounds):
            return False
        return bool(_ends(self.results, self.source.y))

    def title(self) -> str:
        """Return the front of the first cost."""
        return title(self.results, self.source.y)

    def figure(self) -> go.Figure:
        """Return `figures.tradeoff`."""
        return tradeoff(self.results, self.source.y)

    @cached_property
    def content(self) -> dict[str, Any]:
        """Title and figure of the first column, and of each other one that can be won."""
        columns = [c for c in y_columns(self.results) if self.results.column(c).better]
        shown = {c: self._of(c) for c in columns if c != self.source.y and _ends(self.results, c)}
        return super().content | {"columns": shown}

    def _of(self, column: str) -> dict[str, Any]:
        figure = figure_json(tradeoff(self.results, column))
        return {"title": keep_units(title(self.results, column)), "figure": figure}
