"""Studies and runs below some folders, read again only where something has changed."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa

from rayfed.core.announced import PARTS, read_table, run_folders
from rayfed.core.arrays import Floats
from rayfed.core.entries import Damaged
from rayfed.core.errors import RayfedError, clipped
from rayfed.core.notes import Notes
from rayfed.core.run_state import state
from rayfed.engine.run import ENDLESS
from rayfed.report.read.curves import targets
from rayfed.report.read.differences import own_facts, scenario_facts
from rayfed.report.read.results import Results, RunRecord
from rayfed.report.read.run import UNREADABLE, record_of, setting_of

DEEPEST = 5
"""Folders between a folder that was given and a study."""
STILL_S = 5.0
"""Seconds without a change after which the lock of a run is tested."""
READING_S = 0.4
"""Seconds that one look spends on the rows of runs; the others follow with the next look."""
HIGHER: Mapping[str, bool] = {"loss": False, "accuracy": True}
"""Columns of the overview, and whether higher values are better."""
_UNREADABLE = (*UNREADABLE, Damaged, RayfedError)
Stamp: TypeAlias = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Bests:
    """The evaluated rows of a run that are better than all before, in a column.

    Parameters
    ----------
    times, values : (n,) arrays of float64
        Simulated seconds since the start, and the values of the column.
    higher : bool
        Whether more is better.
    end : float
        The value of the last evaluated row; NaN without any.
    """

    times: Floats
    values: Floats
    higher: bool
    end: float

    @classmethod
    def of(cls, times: Floats, values: Floats, higher: bool) -> Bests:
        """Return those of all rows (n,), of which NaN are not evaluated."""
        sign = -1.0 if higher else 1.0
        least = np.minimum.accumulate(np.where(np.isnan(values), np.inf, sign * values))
        improved = least < np.r_[np.inf, least[:-1]]
        known = values[np.isfinite(values)]
        end = float(known[-1]) if len(known) else math.nan
        return cls(times[improved], sign * least[improved], higher, end)

    @property
    def last(self) -> float:
        """The best value of all; NaN without any."""
        return float(self.values[-1]) if len(self.values) else math.nan

    def time_to(self, target: float) -> float:
        """Return the simulated seconds to the first row as good as a target; NaN if none is."""
        good = self.values >= target if self.higher else self.values <= target
        return float(self.times[np.argmax(good)]) if good.any() else math.nan


@dataclass(frozen=True)
class RunLine:
    """A run as a line of the overview.

    Parameters
    ----------
    study, folder : str
        Key of the study, see `Catalogue`, and name of the run's folder in it.
    status : str
        ``unreadable``, or a state as of `run_state.state`.
    info : dict
        Content of ``run.json``, see `report.read.run.record_of`.
    stamp : tuple of tuples
        Of ``run.json`` and the announced parts, see `stamp_of`.
    last : mapping of str to float, optional
        The last values of ``round`` and ``time_s``; None while they are not read.
    bests : mapping of str to Bests
        Of each of the columns `HIGHER` that has values.
    path : Path
        The run's folder.
    """

    study: str
    folder: str
    status: str
    info: dict[str, Any]
    stamp: Stamp = ()
    last: Mapping[str, float] | None = None
    bests: Mapping[str, Bests] = field(default_factory=dict, compare=False)
    path: Path = Path()

    @property
    def key(self) -> str:
        """The run among those of all studies."""
        return f"{self.study}/{self.folder}"

    @property
    def label(self) -> str:
        """The label of its algorithm."""
        return str(self.info["label"])

    @property
    def setting(self) -> str:
        """The name of its setting in a grid, its case or its trial; empty without."""
        return setting_of(self.info)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The settings of its scenario and its algorithm by dotted key."""
        facts = scenario_facts(self.info) | own_facts(self.info)
        return {sys.intern(key): value for key, value in facts.items()}

    @property
    def recorded(self) -> list[str]:
        """The names of its recorded columns of numbers; none where they cannot be read."""
        table = self._read(None)
        kinds = () if table is None else table.schema
        return [each.name for each in kinds if pa.types.is_primitive(each.type)]

    def end(self, column: str) -> float:
        """Return the last finite value of a recorded column; NaN without any."""
        if column not in self._ends:
            table = self._read([column])
            known = np.empty(0)
            if table is not None and column in table.column_names:
                values = table[column].to_numpy().astype(np.float64)
                known = values[np.isfinite(values)]
            self._ends[column] = float(known[-1]) if len(known) else math.nan
        return self._ends[column]

    @cached_property
    def _ends(self) -> dict[str, float]:
        return {}

    def _read(self, columns: list[str] | None) -> pa.Table | None:
        try:
            return read_table(self.path, "rounds", self.info, columns)
        except _UNREADABLE:
            return None

    @property
    def reason(self) -> str:
        """Reason that it failed or cannot be read; empty otherwise."""
        return str(self.info.get("reason") or "").partition("\n")[0]

    @property
    def done(self) -> float:
        """The share of its rounds that are done; NaN where their number is not known."""
        rounds = float(self.info.get("rounds") or math.nan)
        if self.status == "finished":
            return 1.0
        if self.last is None or not rounds < ENDLESS:
            return math.nan
        return min(1.0, self.last["round"] / rounds)

    @property
    def started(self) -> float:
        """Time of its last start in seconds since the epoch; NaN if unknown."""
        try:
            return datetime.fromisoformat(str(self.info.get("started"))).timestamp()
        except (ValueError, OverflowError):
            return math.nan

    def seconds(self, now: float) -> float:
        """Return its wall-clock seconds, so far while it is running; NaN if unknown."""
        if self.status == "running":
            return now - self.started
        return float(self.info.get("wall_s") or math.nan)

    def seconds_left(self, now: float) -> float:
        """Return the wall-clock seconds that a run needs to its end at its pace so far, or NaN."""
        if self.status != "running" or not self.done > 0:
            return math.nan
        return self.seconds(now) * (1 / self.done - 1)


@dataclass(frozen=True)
class StudyLine:
    """A study as the overview knows it.

    Parameters
    ----------
    key : str
        The study among those of all folders.
    folder : Path
    runs : tuple of RunLine
    trouble : str
        Why it or its notes cannot be read; empty if they can.
    notes : Notes
    """

    key: str
    folder: Path
    runs: tuple[RunLine, ...]
    trouble: str = ""
    notes: Notes = Notes()

    @cached_property
    def by_folder(self) -> dict[str, RunLine]:
        """Its runs by the names of their folders."""
        return {run.folder: run for run in self.runs}

    @property
    def running(self) -> bool:
        """Whether any of its runs is running."""
        return any(run.status == "running" for run in self.runs)

    def targets(self, column: str) -> Mapping[str, float]:
        """Return the target of each run by folder: the page's own rule, `curves.targets`.

        It goes by the first and the last values of the runs in the column, one of `HIGHER`. NaN
        where no target is known.
        """
        if column not in self._targets:
            self._targets[column] = _targets(self, column)
        return self._targets[column]

    @cached_property
    def _targets(self) -> dict[str, dict[str, float]]:
        return {}


class Catalogue:
    """Studies and runs below folders; it only reads.

    A study is known by the path below the folder that was given, with the name of that folder
    before it. A key that is not in `studies` names nothing, so no path can be asked for.

    Parameters
    ----------
    folders : sequence of Path
        Each a result folder, or a folder with result folders below it.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self.roots = _named(folders)
        self.studies: dict[str, StudyLine] = {}
        self._stamps: dict[str, Stamp] = {}
        self._changes: dict[str, float] = {}

    def look(self) -> frozenset[str]:
        """Read changed files; return the keys of changed studies."""
        found = {
            (f"{name}/{path.relative_to(root).as_posix()}" if path != root else name): path
            for name, root in self.roots.items()
            for path in _studies(root)
        }
        deadline = time.monotonic() + READING_S
        before = self.studies
        now = {
            key: self._study(key, path, before.get(key), deadline) for key, path in found.items()
        }
        changed = {key for key, study in now.items() if study != before.get(key)}
        # Unchanged ones stay, with their cached targets.
        self.studies = {key: now[key] if key in changed else before[key] for key in now}
        changed |= before.keys() - now.keys()
        return frozenset(changed)

    @property
    def runs(self) -> Iterator[RunLine]:
        """Every run of every study."""
        for study in self.studies.values():
            yield from study.runs

    def _study(
        self, key: str, folder: Path, before: StudyLine | None, deadline: float
    ) -> StudyLine:
        known = before.by_folder if before is not None else {}
        try:
            paths = run_folders(folder)
        except OSError as error:
            return StudyLine(key, folder, (), clipped(error, 120))
        runs = [self._run(key, path, known.get(path.name), deadline) for path in paths]
        try:
            return StudyLine(key, folder, tuple(runs), notes=Notes.read(folder))
        except RayfedError as error:
            return StudyLine(key, folder, tuple(runs), str(error))

    def _run(self, study: str, path: Path, before: RunLine | None, deadline: float) -> RunLine:
        place = f"{study}/{path.name}"
        stamp = stamp_of(path)
        if before is None or self._stamps.get(place) != stamp:
            self._stamps[place] = stamp
            if before is not None and before.stamp != stamp:
                self._changes[place] = time.monotonic()
            info = _info(path)
            if before is None:
                before = RunLine(study, path.name, info["status"], info, path=path)
            before = replace(before, status=info["status"], info=info, stamp=stamp)
            fresh = False
        else:
            fresh = before.last is not None
        status = self._status(place, before, path)
        if not fresh and time.monotonic() < deadline:
            last, bests = _rows(path, before.info)
            return replace(before, status=status, last=last, bests=bests)
        if not fresh:
            self._stamps.pop(place)  # its rows are read with the next look
        return before if status == before.status else replace(before, status=status)

    def _status(self, place: str, run: RunLine, path: Path) -> str:
        """Return the state of a run; one that has just changed goes on."""
        changed = self._changes.get(place, -math.inf)
        if time.monotonic() - changed < STILL_S and run.status == "running":
            return "running"
        return state(path, run.info["status"])


def _targets(study: StudyLine, column: str) -> dict[str, float]:
    """Return `StudyLine.targets`."""

    def ends(path: Path, info: dict[str, Any], name: str) -> RunRecord:
        line = study.by_folder[path.name]
        bests, begun = line.bests.get(column), bool(line.last and line.last["round"] > 0)
        values = [] if bests is None else [bests.values[0], bests.end][: 1 + begun]
        rows = np.column_stack([range(len(values)), np.asarray(values)])
        rounds = pd.DataFrame(rows, columns=["round", column])
        return RunRecord.of_rounds(path, info, name, rounds)

    try:
        infos = {study.folder / run.folder: run.info for run in study.runs}
        runs = Results.of_runs(study.folder, infos, ends)
        found = targets(runs, column)
    except _UNREADABLE:  # of a foreign study
        return dict.fromkeys(study.by_folder, math.nan)
    known = {run.folder.name: found[run.name] for run in runs.runs_found}
    return {folder: math.nan if goal is None else goal for folder, goal in known.items()}


def _named(folders: Sequence[Path]) -> dict[str, Path]:
    """Return folders by distinct names."""
    named: dict[str, Path] = {}
    for folder in folders:
        resolved = folder.resolve()
        name, number = resolved.name or "root", 2
        while named.get(name, resolved) != resolved:
            name, number = f"{resolved.name}-{number}", number + 1
        named[name] = resolved
    return named


def _studies(root: Path, depth: int = 0) -> Iterator[Path]:
    """Yield the result folders at or below a folder; links are not followed."""
    try:
        with os.scandir(root) as entries:
            inside = sorted(
                entry.name
                for entry in entries
                if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
            )
    except OSError:
        return
    if any((root / name / "run.json").is_file() for name in inside):
        yield root
    elif depth < DEEPEST:
        for name in inside:
            yield from _studies(root / name, depth + 1)


def stamp_of(folder: Path, names: Iterable[str] = ("run.json", PARTS)) -> Stamp:
    """Return times in ns, size and inode of files in a folder, zero for missing ones.

    Copies may have the time and the size of another file, and clocks of files are coarse.
    """
    return tuple(_stat(f"{folder}/{name}") for name in names)


def _stat(path: str) -> tuple[int, ...]:
    try:
        found = os.lstat(path)
    except OSError:
        return (0,)
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_ctime_ns


def _info(run: Path) -> dict[str, Any]:
    try:
        return record_of(run)
    except RayfedError as error:
        reason = clipped(error, 200)
        return {"label": run.name, "seed": 0, "status": "unreadable", "reason": reason}


def _rows(run: Path, info: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, Bests]]:
    """Return the last round and time of a run and its bests; round 0 where none can be read."""
    names = ("round", "time_s", *HIGHER)
    try:
        table = read_table(run, "rounds", info, names)
    except _UNREADABLE:
        table = None
    if table is None or not len(table):
        return {"round": 0.0}, {}
    rows = {name: np.asarray(table[name].to_numpy(), np.float64) for name in names}
    last = {name: float(rows[name][-1]) for name in ("round", "time_s")}
    bests = {name: Bests.of(rows["time_s"], rows[name], more) for name, more in HIGHER.items()}
    return last, {name: found for name, found in bests.items() if len(found.values)}
