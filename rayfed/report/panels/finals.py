"""Final values seed by seed."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import plotly.graph_objects as go

from rayfed.core.arrays import Floats
from rayfed.report.figures import finals
from rayfed.report.figures.finals import final_values, value_axis
from rayfed.report.html import keep_units
from rayfed.report.panels.base import FigurePanel, Section
from rayfed.report.panels.phrases import quoted
from rayfed.report.read import units
from rayfed.report.read.results import Results
from rayfed.report.read.series import y_columns
from rayfed.report.read.units import short_number


class FinalsPanel(FigurePanel):
    """A dot for the last value of each run, of the column that is shown above."""

    name: ClassVar[str] = "finals"
    section = Section.RESULTS
    rank = 30

    @property
    def applies(self) -> bool:
        """Whether any algorithm has several seeds, and values."""
        return self.source.seeds > 1 and bool(final_values(self.results, self.source.y))

    @property
    def how(self) -> str:
        """How to read the figure."""
        every, drawn = len(self.results.names), len(self.drawn)
        left = f" Of {every} algorithms the best {drawn} are drawn." if drawn < every else ""
        return (
            "A dot for each seed of what is chosen to be shown above, and a stroke at their "
            f"mean.{left}"
        )

    @cached_property
    def drawn(self) -> tuple[str, ...]:
        """The algorithms that have a row."""
        return tuple(final_values(self.results, self.source.y))

    def title(self) -> str:
        """Return whether the best algorithm is best with every seed."""
        return title(self.results, self.source.y)

    def figure(self) -> go.Figure:
        """Return `figures.finals`."""
        return finals(self.results, self.source.y)

    @cached_property
    def payload(self) -> dict[str, Any]:
        """The figure of the first column, and title, axis and values of each column."""
        columns = dict.fromkeys([self.source.y, *y_columns(self.results)])
        return super().payload | {"columns": {column: self._column(column) for column in columns}}

    def _column(self, column: str) -> dict[str, Any]:
        values = final_values(self.results, column, self.drawn)
        axis = value_axis(self.results, column, list(values.values()))
        axis["title"] = {"text": axis.pop("title_text")}
        if "tickfont_size" in axis:
            axis["tickfont"] = {"size": axis.pop("tickfont_size")}
        return {
            "title": keep_units(title(self.results, column)),
            "axis": axis,
            "values": {name: [short_number(v) for v in ends] for name, ends in values.items()},
        }


def title(results: Results, column: str) -> str:
    """Return whether the best algorithm is best with every seed, or whom its seeds overlap."""
    shown, values = results.column(column), final_values(results, column)
    rivals = {name: values[name] for name in results.rivals if name in values}
    if not rivals:
        return f"No {shown.title} is recorded"
    if results.unlike:
        return f"The final {shown.title} of each run"
    lower = shown.better != "higher"
    order = sorted(rivals, key=lambda name: float(rivals[name].mean()), reverse=not lower)
    best = order[0]
    if len(order) == 1 or shown.better is None:
        return f"{quoted(best)} ends at {shown.title} {_range(rivals[best])}"
    beaten = [name for name in order[1:] if _better(rivals[best], rivals[name], lower)]
    start = f"The final {shown.title} of {quoted(best)}, {_range(rivals[best])},"
    if len(beaten) == len(order) - 1:
        whose = f"{quoted(order[1])}'s" if len(order) == 2 else "all others'"
        ends = rivals[order[1]]
        second = "it has" if len(order) == 2 else f"next is {quoted(order[1])} with"
        return f"{start} is better than {whose} with every seed: {second} {_range(ends)}"
    level = [name for name in order[1:] if name not in beaten]
    others = quoted(level[0]) if len(level) == 1 else f"{len(level)} others"
    return f"{start} is the best on average, but its seeds overlap with those of {others}"


def _better(one: Floats, other: Floats, lower: bool) -> bool:
    """Whether the worst of one is better than the best of the other."""
    return bool(one.max() < other.min() if lower else one.min() > other.max())


def _range(values: Floats) -> str:
    """Return the least and the largest of values, or the only one."""
    low, high = units.number(float(values.min())), units.number(float(values.max()))
    return low if low == high else f"{low} to {high}"
