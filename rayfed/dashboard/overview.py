"""The overview: state of every run of every study, in words and numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from rayfed.core.errors import many
from rayfed.dashboard.catalogue import HIGHER, Catalogue, RunLine, StudyLine
from rayfed.engine.run import ENDLESS
from rayfed.report.read import units

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
class RunRow:
    """A run as the table of runs shows it, with the column and the value that it has to reach."""

    run: RunLine
    now: float
    column: str
    target: float

    @property
    def seconds(self) -> float:
        """The simulated seconds that it took to the target; NaN if it has not reached it."""
        bests = self.run.bests.get(self.column)
        return math.nan if bests is None else bests.time_to(self.target)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells below `Overview.HEADS`."""
        run = self.run
        names = (run.label, run.setting, str(run.info["seed"]), run.study)
        first = [Cell(text, float(text) if text.isdecimal() else text) for text in names]
        bests = [run.bests[name].last if name in run.bests else math.nan for name in HIGHER]
        values = [Cell(units.number(v), v) if math.isfinite(v) else _NONE for v in bests]
        simulated = (run.last or {}).get("time_s", math.nan)
        times = [_time(seconds) for seconds in (self.seconds, simulated)]
        return (*first, Cell(self.state, run.status), *values, *times)

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


@dataclass(frozen=True)
class StudyRow:
    """A study as a row of the table of studies, with the targets of its runs."""

    study: StudyLine
    targets: Mapping[str, float]

    @property
    def goal(self) -> str:
        """The target in words, or the number of cases with targets; empty without any."""
        known = {target for target in self.targets.values() if math.isfinite(target)}
        if len(known) > 1:
            return f"{len(known)}, by case"
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


@dataclass(frozen=True)
class Overview:
    """All studies and runs.

    Parameters
    ----------
    studies : tuple of StudyRow
    runs : tuple of RunRow
        Those that run first, then the newest.
    goal : Goal
    """

    HEADS = (
        "algorithm", "setting", "seed", "study", "status", "best loss", "best accuracy",
        "time to target", "simulated time",
    )  # fmt: skip
    COLUMNS = tuple(HIGHER)
    studies: tuple[StudyRow, ...]
    runs: tuple[RunRow, ...]
    goal: Goal

    @classmethod
    def of(cls, catalogue: Catalogue, now: float, goal: Goal) -> Overview:
        """Return the overview at a time in seconds since the epoch."""
        runs = sorted(catalogue.runs, key=_newest, reverse=True)
        targets = {key: goal.in_study(study) for key, study in catalogue.studies.items()}
        rows = [RunRow(run, now, goal.column, targets[run.study][run.folder]) for run in runs]
        studies = [StudyRow(study, targets[key]) for key, study in catalogue.studies.items()]
        return cls(tuple(studies), tuple(rows), goal)

    @property
    def sentence(self) -> str:
        """The overview in a sentence."""
        if not self.studies:
            return "There is no study here yet"
        runs, studies = len(self.runs), len(self.studies)
        where = f"{studies} {'study' if studies == 1 else 'studies'}"
        return f"{many(runs, 'run')} in {where}: {_counted([row.run for row in self.runs])}"

    @property
    def tab(self) -> str:
        """The title of the browser's tab."""
        return titled("rayfed", [row.run for row in self.runs])


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


def _time(seconds: float) -> Cell:
    return Cell(units.duration(seconds), seconds) if math.isfinite(seconds) else _NONE
