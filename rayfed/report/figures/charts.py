"""Charts shared by panels: bars with parts, lines or steps, and rows of dots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.core.arrays import Floats
from rayfed.report.figures import marks
from rayfed.report.figures.clients import PATTERNS
from rayfed.report.figures.labels import distinct, label_ends, plain
from rayfed.report.figures.palette import LIGHT
from rayfed.report.figures.style import algorithm_styles, canvas, fitted, line
from rayfed.report.read import units
from rayfed.report.read.curves import thin
from rayfed.report.read.results import Results

_MARGINS = 64  # pixels
_STEPS_HEIGHT, _ROW = 320, 22  # pixels
_SYMBOLS = ("circle", "diamond", "square", "triangle-up", "x", "cross", "star")
_MOST = 400  # points of a line
_OUTSIDE = 0.005  # share of the values at each end for which the axis is not made longer
_ALIKE = 0.005  # share of the extent of lines, about two pixels


def rows(names: Sequence[str], height: int, **layout: Any) -> go.Figure:
    """Return a canvas for stacked bars with a row of ``height`` pixels for each name, down."""
    bars = {"barmode": "stack", "hovermode": "closest", "meta": {"rows": list(names)}}
    figure = canvas(_MARGINS + height * len(names), **bars, **layout)
    return name_rows(figure, names).update_yaxes(showgrid=False)


def name_rows(figure: go.Figure, names: Sequence[str]) -> go.Figure:
    """Let the y axis be rows 0, 1, ... with names, which may read alike; the first at the top."""
    return figure.update_yaxes(
        tickvals=list(range(len(names))), ticktext=distinct(names),
        range=[len(names) - 0.5, -0.5], automargin=True, nticks=None,
    )  # fmt: skip


def parts(
    figure: go.Figure, y: Any, lengths: pd.DataFrame, fills: Mapping[str, Any], hover: str,
    names: Mapping[str, str] | None = None, about: pd.DataFrame | None = None, **is_: Any,
) -> None:  # fmt: skip
    """Add a horizontal bar for each row of a table, in parts.

    Parameters
    ----------
    figure : Figure
    y : (n,) array
        Places of the bars.
    lengths : DataFrame (n, parts)
        In the unit of the x axis.
    fills : mapping of str to colour or colours
        The drawn columns in their order, each with one colour or with one a bar.
    hover : str
        A template; ``{part}`` stands for the name of the part.
    names : mapping of str to str, optional
        Names of the parts. If None: the columns.
    about : DataFrame (n, parts), optional
        ``customdata`` of the bars, for the hover.
    **is_
        All else, as Plotly takes it.
    """
    for part, fill in fills.items():
        name = part if names is None else names[part]
        marks.bars(
            figure, part, lengths[part].to_numpy(float).round(6), y, fill,
            hover.replace("{part}", name), PATTERNS.get(part, ""), orientation="h", name=name,
            customdata=None if about is None else about[part].tolist(), **is_,
        )  # fmt: skip


def ends(figure: go.Figure, y: Any, x: Any, texts: Sequence[str]) -> None:
    """Write texts behind the ends of bars."""
    font, shown = {"size": 12, "color": LIGHT["ink"]}, [f" {text}" for text in texts]
    marks.texts(figure, "text", x, y, shown, font, textposition="middle right")


def by_name(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield each algorithm of a table with its rows, in the order of the table."""
    for name, rows in table.groupby("name", sort=False):
        yield str(name), rows


def lines(
    results: Results, table: pd.DataFrame, height: int, x: Mapping[str, Any], y: Mapping[str, Any],
    hover: str = "%{y:.3g}", part: str = "mean", shape: str = "linear", labels: bool = True,
    **layout: Any,
) -> go.Figure:  # fmt: skip
    """Draw a line for each algorithm of a tidy table.

    Parameters
    ----------
    results : Results
        A result folder, for the styles.
    table : DataFrame
        ``name``, ``x`` and ``y``, in the order of each line; ``about``, if there is one, is the
        ``customdata`` of the hover.
    height : int
        Pixels.
    x, y : mapping
        The axes, as Plotly takes them.
    hover : str
        A template, for the hover of all lines together; ``{name}`` stands for the algorithm.
    part, shape : str
        The part of the figure, and the shape of the lines.
    labels : bool
        Whether names stand at the ends of lines.
    **layout
        All else, as Plotly takes it.
    """
    styles = algorithm_styles(results)
    figure = canvas(height, **({"hovermode": "x unified"} | layout))
    for name, rows in by_name(table):
        marks.lines(
            figure, part, rows["x"].to_numpy(), rows["y"].to_numpy(),
            {**line(styles[name]), "shape": shape}, of=name, name=plain(name),
            hovertemplate=hover.replace("{name}", plain(name)),
            mode="lines" if len(rows) > 1 else "markers",
            customdata=rows["about"].to_numpy() if "about" in rows else None,
        )  # fmt: skip
    figure.update_xaxes(x).update_yaxes(y)
    if labels:
        label_ends(figure, {n: float(rows["y"].iloc[-1]) for n, rows in by_name(table)}, styles)
    return figure


def dots(
    figure: go.Figure, part: str, table: pd.DataFrame, marker: Mapping[str, Any], hover: str,
    about: Sequence[str] = (), **is_: Any,
) -> None:  # fmt: skip
    """Add a dot for each row of a table with ``x`` and ``y``.

    `about` names the columns that are the ``customdata`` of the hover.
    """
    rows = table[list(about)].itertuples(index=False)
    if about:
        is_ |= {"customdata": [[_short(value) for value in row] for row in rows]}
    marks.dots(figure, part, table["x"].tolist(), table["y"].tolist(), marker, hover, **is_)


def _short(value: Any) -> Any:
    return units.short_number(value, 5) if isinstance(value, float) else value


def dotted_rows(results: Results, values: pd.DataFrame, number: str) -> go.Figure:
    """Draw a row for each line of a table, and a dot for each of its algorithms.

    Parameters
    ----------
    results : Results
        A result folder, for the styles.
    values : DataFrame (rows, algorithms)
        The first row is at the top.
    number : str
        The template of a value in the hover of a row.
    """
    rows = range(len(values))
    figure = canvas(_MARGINS + _ROW * max(len(rows), 4), hovermode="y unified")
    styles = algorithm_styles(results)
    for place, name in enumerate(map(str, values.columns)):
        marker = {"color": styles[name].light, "symbol": _SYMBOLS[place % len(_SYMBOLS)], "size": 9}
        marks.dots(
            figure, "dots", values[name].to_numpy(), [*rows], marker, of=name, name=plain(name),
            hovertemplate=number,
        )  # fmt: skip
    legend = {"orientation": "h", "y": 1.0, "yanchor": "bottom"}
    figure.update_layout(showlegend=len(values.columns) > 1, legend=legend)
    return name_rows(figure, [str(row) for row in values.index])


def steps(
    results: Results, values: Mapping[str, Floats], log: bool, hover: str, title: str, of: str
) -> go.Figure:
    """Draw the empirical distribution of each algorithm's values, in percent.

    Parameters
    ----------
    results : Results
        A result folder, for the styles.
    values : mapping of str to (n,) array
        Sorted, by algorithm.
    log : bool
        Whether the axis of values is logarithmic.
    hover, title, of : str
        The text of a hover, the title of the axis of values, and the counted things.
    """
    x = fitted(title, [_most(part, log) for part in values.values()], log)
    y = {"title_text": f"share of {of} (%)", "range": [0, 102], "tickvals": [0, 25, 50, 75, 100]}
    table = pd.concat([_distribution(part).assign(name=name) for name, part in values.items()])
    return lines(
        results, table, _STEPS_HEIGHT, x, y, f"{{name}}: {hover}<extra></extra>", "line", "hv",
        labels=False, hovermode="closest", dragmode="zoom",
    )  # fmt: skip


def _distribution(values: Floats) -> pd.DataFrame:
    """Return the steps of a distribution, which begin on the ground at the least value."""
    at = thin(np.arange(len(values)), _MOST)
    shares = np.concatenate([[0.0], 100 * (at + 1) / len(values)])
    return pd.DataFrame({"x": np.concatenate([values[:1], values[at]]), "y": shares}).round(6)


def _most(values: Floats, log: bool) -> Floats:
    """Return the least and the largest of sorted values, but for half a percent at each end."""
    shown = values[values > 0] if log else values
    low = np.quantile(shown, _OUTSIDE, method="lower")
    return np.array([low, np.quantile(shown, 1 - _OUTSIDE, method="higher")])


def alike(figure: go.Figure) -> list[list[str]]:
    """Return the algorithms that a figure compares, grouped where they look the same.

    In a group the parts of all bars and the texts behind them, or the points of all lines in each
    subplot, are equal to within half a percent of their extent.
    """
    of_rows = "rows" in (figure.layout.meta or {})
    points = _bars(figure) if of_rows else _curves(figure)
    texts = _texts(figure) if of_rows else {}
    groups: list[list[str]] = []
    for name, own in points.items():
        for group in groups:
            first = group[0]
            if texts.get(first) == texts.get(name) and _same_places(points[first], own):
                group.append(name)
                break
        else:
            groups.append([name])
    return groups


def _same_places(one: Mapping[str, Floats], other: Mapping[str, Floats]) -> bool:
    """Return whether points (n, 2), by subplot, are as good as equal."""
    from scipy.spatial.distance import directed_hausdorff  # imported late: few need it

    pairs = [(one[key], other[key]) for key in one.keys() & other.keys()]
    both = [*pairs, *(pair[::-1] for pair in pairs)]
    return one.keys() == other.keys() and all(directed_hausdorff(*p)[0] <= _ALIKE for p in both)


def _texts(figure: go.Figure) -> dict[str, list[str]]:
    """Return the texts behind the bars of each algorithm."""
    found: dict[str, list[str]] = {name: [] for name in figure.layout.meta["rows"]}
    names = list(found)
    for trace in figure.data:
        if trace.type == "scatter" and trace.mode == "text":
            for y, text in zip(trace.y, trace.text, strict=True):
                found[names[round(y)]].append(text)
    return found


def _bars(figure: go.Figure) -> dict[str, dict[str, Floats]]:
    """Return the part and the length, as a share of the axis, of each bar of an algorithm."""
    low, high = figure.layout.xaxis.range or (0.0, 1.0)
    bars = [trace for trace in figure.data if trace.type == "bar"]
    found = np.concatenate([
        np.column_stack([np.full(len(bar.y), part), np.asarray(bar.x, float) / (high - low), bar.y])
        for part, bar in enumerate(bars)
    ])  # fmt: skip
    names = figure.layout.meta["rows"]
    return {name: {"": found[found[:, 2].round() == row, :2]} for row, name in enumerate(names)}


def _curves(figure: go.Figure) -> dict[str, dict[str, Floats]]:
    """Return the finite points (n, 2) of algorithms by subplot, as shares of the extent there."""
    found: dict[str, dict[str, list[Floats]]] = {}
    for trace in figure.data:
        named = isinstance(trace.meta, dict) and "name" in trace.meta
        if named and trace.type == "scatter" and trace.x is not None and trace.y is not None:
            places = [_along(figure, trace[f"{key}axis"] or key, trace[key]) for key in "xy"]
            known = np.column_stack(places)
            known = known[np.isfinite(known).all(axis=1)]
            if len(known):
                subplot = found.setdefault(f"{trace.xaxis} {trace.yaxis}", {})
                subplot.setdefault(trace.meta["name"], []).append(known)
    shares: dict[str, dict[str, Floats]] = {}
    for key, each in found.items():
        points = {name: np.concatenate(parts) for name, parts in each.items()}
        spans = np.ptp(np.concatenate(list(points.values())), axis=0)
        for name, known in points.items():
            shares.setdefault(name, {})[key] = known / np.where(spans > 0, spans, 1.0)
    return shares


def _along(figure: go.Figure, name: str, values: Any) -> Floats:
    """Return values as they lie along an axis; NaN for texts."""
    axis = figure.layout[f"{name[0]}axis{name[1:]}"]
    numbers = pd.to_numeric(pd.Series(values), errors="coerce")
    with np.errstate(divide="ignore", invalid="ignore"):
        places: Floats = numbers.to_numpy(float)
        return np.log10(places) if axis.type == "log" else places
