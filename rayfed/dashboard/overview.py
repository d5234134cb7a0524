"""The overview: what every run of every study has come to, in words and numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rayfed.dashboard.catalogue import Catalogue, RunLine, StudyLine
from rayfed.engine.run import ENDLESS
from rayfed.report.read import units

STATES = ("running", "finished", "failed", "interrupted", "unreadable")


@dataclass(frozen=True)
class Cell:
    """A cell of a table: what is shown, and the number or text that it is sorted by."""

    text: str
    key: float | str = ""


@dataclass(frozen=True)
class RunRow:
    """A run as the table of runs shows it."""

    run: RunLine
    now: float

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells below `Overview.HEADS`."""
        run = self.run
        names = (run.label, run.setting, str(run.info.get("seed", "")), run.study)
        told = [Cell(text, float(text) if text.isdecimal() else text) for text in names]
        values = [_value(run, key) for key in ("best_loss", "best_accuracy")]
        return (*told, Cell(self.state, run.status), *values, _time(run))

    @property
    def state(self) -> str:
        """Its status with what there is to say of it."""
        run = self.run
        if run.status in ("failed", "unreadable"):
            return f"{run.status}: {run.reason}" if run.reason else run.status
        if run.status == "finished" or run.last is None:
            return run.status
        rounds = float(run.info.get("rounds") or math.inf)
        of = f" of {units.count(rounds)}" if rounds < ENDLESS else ""
        left = run.seconds_left(self.now)
        pace = f", about {units.duration(left)} left" if math.isfinite(left) else ""
        return f"{run.status}, round {units.count(run.last['round'])}{of}{pace}"


@dataclass(frozen=True)
class StudyRow:
    """A study as the table of studies shows it."""

    study: StudyLine

    @property
    def counts(self) -> str:
        """How many of its runs there are of each status."""
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
    """

    HEADS = (
        "algorithm", "setting", "seed", "study", "status", "best loss", "best accuracy",
        "simulated time",
    )  # fmt: skip
    studies: tuple[StudyRow, ...]
    runs: tuple[RunRow, ...]

    @classmethod
    def of(cls, catalogue: Catalogue, now: float) -> Overview:
        """Return what there is, at a time in seconds since the epoch."""
        runs = sorted(catalogue.runs, key=_newest, reverse=True)
        studies = [StudyRow(study) for study in catalogue.studies.values()]
        return cls(tuple(studies), tuple(RunRow(run, now) for run in runs))

    @property
    def sentence(self) -> str:
        """What there is, in a sentence."""
        if not self.studies:
            return "There is no study here yet"
        many = len(self.studies)
        return (
            f"{many} {'study' if many == 1 else 'studies'}: {_counted([r.run for r in self.runs])}"
        )

    @property
    def tab(self) -> str:
        """The title of the browser's tab: how far what runs is."""
        done = [row.run.done for row in self.runs if row.run.status == "running"]
        known = [share for share in done if math.isfinite(share)]
        far = f"{units.share(sum(known) / len(known))} · " if known else ""
        return f"{far}rayfed"


def _counted(runs: Sequence[RunLine]) -> str:
    counts = Counter(run.status for run in runs)
    parts = [f"{counts[state]} {state}" for state in STATES if counts[state]]
    return ", ".join(parts)


def _newest(run: RunLine) -> tuple[bool, str]:
    return run.status == "running", str(run.info.get("started") or "")


def _value(run: RunLine, key: str) -> Cell:
    value = (run.last or {}).get(key, math.nan)
    if not math.isfinite(value):
        return Cell(units.MISSING)
    return Cell(units.number(value), value)


def _time(run: RunLine) -> Cell:
    seconds = (run.last or {}).get("time_s", math.nan)
    return Cell(units.duration(seconds), seconds) if math.isfinite(seconds) else Cell(units.MISSING)
