"""What became of the points of a sweep over one or two numbers."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import pandas as pd

from rayfed.report.figures.palette import LineStyle
from rayfed.report.figures.sweep import sweep_figures
from rayfed.report.html import keep_units
from rayfed.report.panels.base import Panel, Section, figure_json
from rayfed.report.panels.phrases import goal, quoted
from rayfed.report.read import sweeps, units
from rayfed.report.read.results import Results
from rayfed.report.read.series import stopped_at, y_columns
from rayfed.report.read.sweeps import Sweep

SENSITIVITY = "What each key does while the other stays at the best: a dot for each of its values."


class SweepPanel(Panel):
    """One figure of lines, or heat maps and what each key does, of the column that is shown."""

    name: ClassVar[str] = "sweep"
    section = Section.SETTINGS
    rank = 0

    @cached_property
    def sweep(self) -> Sweep | None:
        """The sweep; None where nothing was swept."""
        return sweeps.find(self.results)

    @property
    def applies(self) -> bool:
        """Whether anything was swept; a search has panels of its own."""
        return self.source.searched is None and self.sweep is not None

    @cached_property
    def payload(self) -> dict[str, Any]:
        """Title and figures for every column."""
        assert self.sweep is not None
        return {
            column: {
                "title": keep_units(title(self.results, self.sweep, column)),
                "figures": [
                    figure_json(f) for f in sweep_figures(self.results, self.sweep, column)
                ],
            }
            for column in dict.fromkeys([self.source.y, *y_columns(self.results)])
        }

    @property
    def shown(self) -> dict[str, Any]:
        """What the page shows before the reader has pressed anything."""
        shown: dict[str, Any] = self.payload[self.source.y]
        return shown

    @property
    def maps(self) -> bool:
        """Whether figures are heat maps over two keys."""
        return self.sweep is not None and len(self.sweep.keys) == 2

    @property
    def stops(self) -> bool:
        """Whether any column ends a run, so that the rounds until then are drawn."""
        return any(stopped_at(self.results, column) is not None for column in self.payload)

    @property
    def key(self) -> list[tuple[int, LineStyle, str]]:
        """The key of the lines, empty where there is one or where there are maps."""
        if self.maps or self.sweep is None or len(self.sweep.series) < 2:
            return []
        source = self.source
        pairs = zip(self.sweep.series, self.sweep.firsts, strict=True)
        return [(source.colour_place(n), source.styles[n], series) for series, n in pairs]

    @property
    def heads(self) -> list[str]:
        """What stands above each figure."""
        assert self.sweep is not None
        if not self.maps:
            return [""]
        several = len(self.sweep.series) > 1
        return [*(self.sweep.series if several else [""]), SENSITIVITY]


def title(results: Results, sweep: Sweep, column: str) -> str:
    """Return at which point of a sweep the last value was best, or came soonest."""
    ends = sweep.values(results, column)
    rows = ends.dropna(subset=["value"]).sort_values("value", kind="stable")
    shown, stop = results.column(column), stopped_at(results, column)
    if stop is not None:
        return _soonest(sweep, rows, goal(shown, stop), len(ends))
    if not len(rows):
        return f"No point of the sweep ended with a {shown.title}"
    if shown.better == "higher":
        rows = rows[::-1]
    first, last = rows.iloc[0], rows.iloc[-1]
    best, worst = ("smallest", "largest") if shown.better is None else ("best", "worst")
    text = f"The {best} final {shown.title}, {units.number(first['value'])}, is "
    text += f"{quoted(first['series'])}'s with {_point(sweep, first)}; "
    text += f"the {worst}, {units.number(last['value'])}, "
    text += f"{quoted(last['series'])}'s with " if len(sweep.series) > 1 else "comes with "
    text += _point(sweep, last)
    failed = int(ends["failed"].sum())
    return text + (f"; {failed} of {len(ends)} points failed" if failed else "")


def _soonest(sweep: Sweep, rows: pd.DataFrame, aim: str, count: int) -> str:
    """Return where a goal took the fewest rounds, and where the most; rows are in that order."""
    if not len(rows):
        return f"No point of the sweep reached {aim}"
    ends = [
        f"{units.count(row['value'])} "
        + f"by {quoted(row['series'])} " * (len(sweep.series) > 1)
        + f"with {_point(sweep, row)}"
        for _, row in rows.iloc[[0, -1]].iterrows()
    ]
    text = f"The fewest rounds to {aim} are {ends[0]}, the most {ends[1]}"
    missed = count - len(rows)
    return text + (f"; {missed} of {count} points did not reach it" if missed else "")


def _point(sweep: Sweep, row: pd.Series) -> str:
    pairs = zip(sweep.titles, sweep.keys, strict=True)
    return " and ".join(f"{name} {units.setting(row[key])}" for name, key in pairs)
