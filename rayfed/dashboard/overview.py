"""The overview: state of every run of every study, in words and numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from statistics import fmean
from typing import Any
from urllib.parse import parse_qs

from rayfed.core.errors import clipped, many
from rayfed.core.notes import LONGEST
from rayfed.dashboard.catalogue import HIGHER, Catalogue, RunLine, StudyLine
from rayfed.engine.run import ENDLESS
from rayfed.report.read import units
from rayfed.report.read.differences import shown, unequal

STATES = ("running", "finished", "failed", "stopped", "interrupted", "unreadable")


@dataclass(frozen=True)
class Cell:
    """A cell of a table: shown text, and sort key."""

    text: str
    key: float | str = ""


_NONE = Cell(units.MISSING)


@dataclass(frozen=True)
class Goal:
    """The target of a run.

    Parameters
    ----------
    column : str
        One of `catalogue.HIGHER`.
    value : float, optional
        If None every study has its own, that of its page: `StudyLine.targets`.
    """

    column: str = "loss"
    value: float | None = None

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Goal:
        """Return an overview from the query of an address, without unreadable numbers."""
        column = query.get("of", "")
        found = cls(column if column in HIGHER else "loss")
        with suppress(ValueError):
            value = float(query.get("target", ""))
            return replace(found, value=value) if math.isfinite(value) else found
        return found

    def in_study(self, study: StudyLine) -> Mapping[str, float]:
        """Return the target of each run of a study by its folder; NaN where there is none."""
        if self.value is not None:
            return dict.fromkeys(study.by_folder, self.value)
        return study.targets(self.column)


@dataclass(frozen=True)
class Layout:
    """Columns, groups and axes of the overview.

    Parameters
    ----------
    columns : tuple of str
        Added to `HEADS`.
    group : str
        The column by which runs are grouped; empty for none.
    x, y : str
        The columns on the axes of the scatter plot; empty for the first ones.
    archived : bool
        Whether archived studies are listed, too.
    """

    columns: tuple[str, ...] = ()
    group: str = ""
    x: str = ""
    y: str = ""
    archived: bool = False

    @classmethod
    def of(cls, query: str) -> Layout:
        """Return the layout that the query of an address names."""
        held = parse_qs(query)
        group, x, y = (held.get(key, [""])[-1] for key in ("group", "x", "y"))
        columns = tuple(dict.fromkeys(held.get("column", ())))[:MOST_COLUMNS]
        return cls(columns, group, x, y, "archived" in held)

    def within(self, known: Collection[str]) -> Layout:
        """Return the layout without columns that no run has."""
        columns = tuple(name for name in self.columns if name in known and name not in HEADS)
        group, x, y = (name if name in known else "" for name in (self.group, self.x, self.y))
        return Layout(columns, group, x, y, self.archived)


@dataclass(frozen=True)
class RunRow:
    """A run as the table of runs shows it, with the column and the value that it has to reach.

    Parameters
    ----------
    run : RunLine
    now : float
        Seconds since the epoch.
    column : str
    target : float
    tags : tuple of str
        Tags of its study.
    """

    run: RunLine
    now: float
    column: str
    target: float
    tags: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """The simulated seconds that it took to the target; NaN if it has not reached it."""
        bests = self.run.bests.get(self.column)
        return math.nan if bests is None else bests.time_to(self.target)

    def best(self, column: str) -> float:
        """Return its best value of a column; NaN without any."""
        bests = self.run.bests.get(column)
        return math.nan if bests is None else bests.last

    def cell(self, column: str) -> Cell:
        """Return the cell of a column, one of `Overview.choices`."""
        if column in _NAMED:
            return _NAMED[column](self)
        if (found := _measured(column)) is not None:
            measure, text = found
            value = measure(self)
            return Cell(text(value), value) if math.isfinite(value) else _NONE
        return _setting(self.run.settings[column]) if column in self.run.settings else _NONE

    @property
    def state(self) -> str:
        """Its status in words."""
        run = self.run
        if run.status in ("failed", "unreadable"):
            return f"{run.status}: {run.reason}" if run.reason else run.status
        if run.status == "finished" or run.last is None:
            return run.status
        rounds = float(run.info.get("rounds") or math.inf)
        of = f" of {units.count(rounds)}" if rounds < ENDLESS else ""
        seconds = run.seconds_left(self.now)
        pace = f", about {units.duration(seconds)} left" if math.isfinite(seconds) else ""
        return f"{run.status}, round {units.count(run.last['round'])}{of}{pace}"


def _setting(value: Any) -> Cell:
    text = clipped(shown(value), MOST_CHARACTERS)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return Cell(text, float(value) if number and math.isfinite(value) else text)


def _name(text: str) -> Cell:
    return Cell(text, float(text) if text.isdecimal() else text)


_NAMED: Mapping[str, Callable[[RunRow], Cell]] = {
    "algorithm": lambda row: _name(row.run.label),
    "setting": lambda row: _name(row.run.setting),
    "seed": lambda row: _name(str(row.run.info["seed"])),
    "study": lambda row: _name(row.run.study),
    "status": lambda row: Cell(row.state, row.run.status),
    "started": lambda row: date(row.run.started),
    "tags": lambda row: _name(" ".join(row.tags)),
}
_MEASURED: Mapping[str, tuple[Callable[[RunRow], float], Callable[[float], str]]] = {
    "best loss": (lambda row: row.best("loss"), units.number),
    "best accuracy": (lambda row: row.best("accuracy"), units.number),
    "time to target": (lambda row: row.seconds, units.duration),
    "simulated time": (lambda row: (row.run.last or {}).get("time_s", math.nan), units.duration),
    "duration": (lambda row: row.run.seconds(row.now), units.duration),
}
LAST = "last "
"""Before the name of a recorded column: its last value."""


def _measured(column: str) -> tuple[Callable[[RunRow], float], Callable[[float], str]] | None:
    """Return the value of a column of numbers and its text; None of other columns."""
    if column.startswith(LAST):
        name = column.removeprefix(LAST)
        return lambda row: row.run.end(name), units.number
    return _MEASURED.get(column)


TIMES = tuple(name for name, (_, text) in _MEASURED.items() if text is units.duration)
"""Columns in seconds."""
HEADS = (
    "algorithm", "setting", "seed", "study", "status", "best loss", "best accuracy",
    "time to target", "simulated time",
)  # fmt: skip
"""Columns of the table of runs."""
EXTRA = ("started", "duration", "tags")
"""Columns that may be added, besides settings."""
MOST_COLUMNS = 20
MOST_CHARACTERS = 60
"""Largest length of the value of a setting."""


@dataclass(frozen=True)
class Group:
    """Runs with the same text in a column.

    Parameters
    ----------
    title : str
        That text; empty if runs are not grouped.
    rows : tuple of RunRow
    """

    title: str
    rows: tuple[RunRow, ...]

    @property
    def counts(self) -> str:
        """Number of its runs by status."""
        return _counted([row.run for row in self.rows])

    def cell(self, column: str) -> str:
        """Return the text that all runs share, or the mean of measured values; else nothing.

        There is no mean if the value of a run is missing.
        """
        cells = [row.cell(column) for row in self.rows]
        if len({cell.text for cell in cells}) == 1:
            return cells[0].text
        if (found := _measured(column)) is None or _NONE in cells:
            return ""
        measure, text = found
        return f"mean {text(fmean(map(measure, self.rows)))}"


@dataclass(frozen=True)
class StudyRow:
    """A study as a row of the table of studies, with the targets of its runs.

    Parameters
    ----------
    study : StudyLine
    targets : mapping of str to float
    now : float
        Seconds since the epoch.
    """

    study: StudyLine
    targets: Mapping[str, float]
    now: float

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.study.folder.name

    @property
    def goal(self) -> str:
        """The target in words, or the number of different ones of cases; a dash without any."""
        known = {target for target in self.targets.values() if math.isfinite(target)}
        if len(known) > 1:
            return f"{len(known)} values, by case"
        return units.target(known.pop()) if known else units.MISSING

    @property
    def counts(self) -> str:
        """Number of its runs by status."""
        return _counted(self.study.runs) if self.study.runs else self.study.trouble

    @property
    def description(self) -> str:
        """The sentence about it in its scenario."""
        about: Any = next((run.info["study"] for run in self.study.runs if "study" in run.info), {})
        return str(about.get("description") or "").strip() if isinstance(about, dict) else ""

    @property
    def started(self) -> str:
        """Date and time of the first start of its runs."""
        return date(self._first).text

    @property
    def duration(self) -> str:
        """Wall-clock time from the first start to the last end, so far while it is running."""
        ends = [run.started + run.seconds(self.now) for run in self.study.runs]
        return units.duration(max(filter(math.isfinite, ends), default=math.nan) - self._first)

    @property
    def _first(self) -> float:
        starts = (run.started for run in self.study.runs)
        return min(filter(math.isfinite, starts), default=math.nan)


@dataclass(frozen=True)
class Overview:
    """All studies and runs.

    Parameters
    ----------
    studies : tuple of StudyRow
    runs : tuple of RunRow
        Those that run first, then the newest.
    goal : Goal
    layout : Layout
        Of known columns only.
    more : tuple of str
        Columns that may be added: `EXTRA`, dotted keys of settings that differ between the runs,
        and `LAST` values of columns that the first run of a study has recorded.
    archived : int
        Number of archived studies.
    """

    COLUMNS = tuple(HIGHER)
    LONGEST = LONGEST
    studies: tuple[StudyRow, ...]
    runs: tuple[RunRow, ...]
    goal: Goal
    layout: Layout = Layout()
    more: tuple[str, ...] = ()
    archived: int = 0

    @classmethod
    def of(
        cls, catalogue: Catalogue, now: float, goal: Goal, layout: Layout = Layout()
    ) -> Overview:
        """Return the overview at a time in seconds since the epoch."""
        every = catalogue.studies
        listed = {k: s for k, s in every.items() if layout.archived or not s.notes.archived}
        found = [run for study in listed.values() for run in study.runs]
        targets = {key: goal.in_study(study) for key, study in listed.items()}
        rows = [
            RunRow(run, now, goal.column, targets[run.study][run.folder], study.notes.tags)
            for run in sorted(found, key=_newest, reverse=True)
            for study in [listed[run.study]]
        ]
        studies = [StudyRow(study, targets[key], now) for key, study in listed.items()]
        settings = sorted(unequal([run.settings for run in found]))
        firsts = (study.runs[0] for study in listed.values() if study.runs)
        last = sorted({f"{LAST}{name}" for run in firsts for name in run.recorded})
        more = (*EXTRA, *settings, *last)
        archived = sum(study.notes.archived for study in every.values())
        known = layout.within({*HEADS, *more})
        return cls(tuple(studies), tuple(rows), goal, known, more, archived)

    @property
    def heads(self) -> tuple[str, ...]:
        """The columns of the table of runs."""
        return (*HEADS, *self.layout.columns)

    @property
    def choices(self) -> tuple[str, ...]:
        """All columns, including those that may be added."""
        return (*HEADS, *self.more)

    @property
    def x(self) -> str:
        """The column on the x axis of the scatter plot."""
        return self.layout.x or "simulated time"

    @property
    def y(self) -> str:
        """The column on the y axis of the scatter plot."""
        return self.layout.y or f"best {self.goal.column}"

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The runs by the column of `Layout.group`, in the order of its values."""
        return self.by(self.layout.group) if self.layout.group else (Group("", self.runs),)

    def by(self, column: str) -> tuple[Group, ...]:
        """Return the runs by their values in a column, in the order of these."""
        found: dict[float | str, list[RunRow]] = {}
        for row in self.runs:
            found.setdefault(row.cell(column).key, []).append(row)
        ordered = sorted(found, key=lambda key: (isinstance(key, str), key))
        return tuple(Group(_title(key, column, found[key]), tuple(found[key])) for key in ordered)

    @property
    def sentence(self) -> str:
        """The overview in a sentence."""
        if not self.studies:
            return "All studies are archived" if self.archived else "There is no study here yet"
        runs, studies = len(self.runs), len(self.studies)
        where = f"{studies} {'study' if studies == 1 else 'studies'}"
        return f"{many(runs, 'run')} in {where}: {_counted([row.run for row in self.runs])}"

    @property
    def tab(self) -> str:
        """The title of the browser's tab."""
        return titled("rayfed", [row.run for row in self.runs])


def _title(key: float | str, column: str, rows: Sequence[RunRow]) -> str:
    """Return the title of a group: its key, or the text of a number or of a missing value."""
    return key if isinstance(key, str) and key else rows[0].cell(column).text


def titled(name: str, runs: Sequence[RunLine]) -> str:
    """Return the title of a tab: the progress of running runs before its name."""
    done = [run.done for run in runs if run.status == "running"]
    known = [share for share in done if math.isfinite(share)]
    return f"{units.share(sum(known) / len(known))} · {name}" if known else name


def _counted(runs: Sequence[RunLine]) -> str:
    counts = Counter(run.status for run in runs)
    parts = [f"{counts[state]} {state}" for state in STATES if counts[state]]
    return ", ".join(parts)


def _newest(run: RunLine) -> tuple[bool, str]:
    return run.status == "running", str(run.info.get("started") or "")


def date(seconds: float) -> Cell:
    """Return a time in seconds since the epoch as date and local time."""
    try:
        found = datetime.fromtimestamp(seconds)
    except (ValueError, OverflowError):  # NaN, or beyond the year 9999
        return _NONE
    return Cell(f"{found:%Y-%m-%d %H:%M}", f"{found:%Y-%m-%d %H:%M:%S}")
