"""How losses and other columns develop, on any clock, with a target that can be moved."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from rayfed.core.columns import Column
from rayfed.report.figures.convergence import convergence, shows_seeds
from rayfed.report.figures.style import x_scales
from rayfed.report.panels.base import Panel, Section, figure_json
from rayfed.report.read.results import Results
from rayfed.report.read.series import (
    X_AXES,
    clocks,
    default_target,
    history,
    points,
    thin,
    y_columns,
)
from rayfed.report.read.units import short_number

MOST_NUMBERS = 400_000  # of all runs and columns together


class ConvergencePanel(Panel):
    """The main figure with its buttons; the headline above it is its title."""

    name: ClassVar[str] = "convergence"
    section = Section.RESULTS
    rank = 0

    @property
    def applies(self) -> bool:
        """Whether any column is worth drawing."""
        return bool(y_columns(self.results))

    @cached_property
    def payload(self) -> dict[str, Any]:
        """The figure, and the `curve_data` from which it can be drawn for any other choice."""
        x = next(iter(clocks(self.results)))
        figure = figure_json(convergence(self.results, x=x, y=self.source.y))
        curves = curve_data(self.results)
        if self.source.y in curves["columns"]:
            curves["columns"][self.source.y]["target"] = self.source.target
        return {"figure": figure, "curves": curves}

    @property
    def clocks(self) -> list[tuple[str, str]]:
        """The choices of an x axis: columns with their titles."""
        return [(x, axis.title) for x, axis in clocks(self.results).items()]

    @property
    def columns(self) -> list[tuple[str, str]]:
        """The choices of a y axis: columns with their titles."""
        entries: Mapping[str, Any] = self.payload["curves"]["columns"]
        return [(column, entry["title"]) for column, entry in entries.items()]

    @property
    def scale(self) -> str:
        """The scale of the y axis that is drawn first, "linear" or "log"."""
        return str(self.payload["figure"]["layout"]["yaxis"]["type"])

    @property
    def lines(self) -> str:
        """What the lines and bands are; empty where there is one seed and nothing was swept."""
        return " ".join(filter(None, [self._swept, self._seeds]))

    @property
    def _swept(self) -> str:
        if not self.results.families:
            return ""
        return (
            "The best setting of each algorithm at the end has its colour, all others are grey; "
            "click a line to single it out, and again to let go of it. Figures further below that "
            "compare algorithms show these settings alone."
        )

    @property
    def _seeds(self) -> str:
        if self.source.seeds < 2:
            return ""
        faint = "; faint lines are single seeds." if shows_seeds(self.results) else "."
        return (
            f"Lines are means over {self.source.seeds} seeds, bands one standard deviation, "
            f"no further than the seeds themselves{faint}"
        )

    @property
    def thinned(self) -> str:
        """How many rounds are drawn where not all are, else empty."""
        rounds = self.payload["curves"]["thinned"]
        return f" Of each run at most {rounds:,} rounds are drawn." if rounds else ""


def curve_data(results: Results, numbers: int = MOST_NUMBERS) -> dict[str, Any]:
    """Return what the script needs to draw any clock against any column.

    Parameters
    ----------
    results : Results
        A result folder.
    numbers : int
        About how many numbers may be stored; long runs are thinned to 200 to 2,000 rows each.

    Returns
    -------
    dict
        ``runs`` with the columns of each run, ``clocks`` and ``columns`` with their titles, and
        ``thinned``: to how many rounds the longest run was thinned, None if none was.
    """
    columns = y_columns(results)
    runs = [run for name in results.names for run in results.usable(name)]
    share = numbers // max(1, len(runs) * (len(columns) + len(X_AXES)))
    rows = int(np.clip(share, 200, 2000))
    scales = {x: scaled | {"plain": X_AXES[x].title} for x, scaled in x_scales(results).items()}
    longest = max((len(run.rounds) for run in runs), default=0)
    return {
        "thinned": rows if longest > rows else None,
        "clocks": scales,
        "columns": {
            name: _column(results.column(name)) | {"target": default_target(results, name)}
            for name in columns
        },
        "runs": [
            {
                "name": run.name,
                "seed": run.seed,
                "baseline": run.baseline,
                "data": _short_columns(history(run), [*scales, *columns], rows),
            }
            for run in runs
        ],
    }


def _column(column: Column) -> dict[str, Any]:
    return {"title": column.title, "label": column.label, "better": column.better}


def _short_columns(
    frame: pd.DataFrame, columns: list[str], rows: int
) -> dict[str, list[float | None]]:
    """Return columns as short lists; evaluated rows are kept before others."""
    evaluated, _ = points(frame, "round", "loss")
    if len(frame) > rows and len(evaluated):
        frame = frame[frame["round"].isin(evaluated)]
    kept = frame.iloc[thin(np.arange(len(frame)), rows)]
    return {
        column: [short_number(value) for value in kept[column]]
        for column in columns
        if column in kept
    }
