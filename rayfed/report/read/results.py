"""Result folders as frames, including failed and running studies."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import pandas as pd

from rayfed.core.announced import run_folders
from rayfed.core.columns import Column, by_name
from rayfed.core.errors import ScenarioError, unknown
from rayfed.core.inside import real
from rayfed.core.notes import Notes
from rayfed.core.yamlfile import read_text
from rayfed.report.read.differences import Compared
from rayfed.report.read.run import Caching, RunRecord, better_by_name, record_of, setting_of
from rayfed.report.read.settings import Placed, has_cases, placed, short_names, tried

__all__ = ["Progress", "Results", "RunRecord"]
MANY = 8
"""Largest number of names, cases aside, with a colour for each setting of an algorithm."""
_NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)")
_T = TypeVar("_T")
_P = ParamSpec("_P")


Progress = Callable[[int, int, str], object]
"""Callback of progress: finished steps, all steps, and the current step."""


@dataclass(frozen=True)
class Results(Caching):
    """All records of a study so far.

    Parameters
    ----------
    folder : Path
        The result folder of the study.
    runs_found : tuple of RunRecord
        In the order of the algorithms in the scenario, then by setting and seed.
    scenario : str
        The text of ``scenario.yaml``, empty if there is none.
    compared : Compared, optional
        What differs, where these are the runs of several folders (`joined.joined`).
    order : tuple of str
        Of a case the algorithms in all cases, so that each has its colour in every one of them.
    """

    folder: Path
    runs_found: tuple[RunRecord, ...]
    scenario: str = ""
    compared: Compared | None = None
    order: tuple[str, ...] = ()

    @classmethod
    def read(
        cls,
        folder: str | Path,
        progress: Progress | None = None,
        only: Collection[str] | None = None,
    ) -> Results:
        """Read a result folder.

        Parameters
        ----------
        folder : str or Path
            The result folder of a study.
        progress : callable, optional
            Called with the number of read runs, of all runs, and a text.
        only : collection of str, optional
            Names of the run folders that are read; all if None.

        Raises
        ------
        ScenarioError
            If there is no run in the folder.
        """
        place = real(Path(folder))
        folders = [path for path in run_folders(place) if only is None or path.name in only]
        if not folders:
            raise no_runs(place)
        return cls.of_runs(
            place, {path: record_of(path) for path in folders}, RunRecord.read, progress
        )

    @classmethod
    def of_runs(
        cls,
        place: Path,
        infos: Mapping[Path, dict[str, Any]],
        read: Callable[[Path, dict[str, Any], str], RunRecord],
        progress: Progress | None = None,
    ) -> Results:
        """Return runs by their folders in a result folder, with the content of ``run.json``.

        `read` makes each run of its folder, this record, and its name among the others.
        """
        text = place / "scenario.yaml"
        held = text.exists() or text.is_symlink()  # a link to nowhere is refused, too
        scenario = read_text(text, results=True) if held else ""
        names = _names([*infos.values()], scenario)
        runs = []
        for (path, info), name in zip(infos.items(), names, strict=True):
            runs.append(read(path, info, name))
            if progress is not None:
                progress(len(runs), len(infos), "reading runs")
        order = _order(runs)
        last = len(order)
        runs.sort(key=lambda run: (order.get(run.label, last), _by_value(run.name), run.seed))
        return cls(place, tuple(runs), scenario)

    def reusing(self, earlier: Results) -> Results:
        """Take the cases of earlier results that have the same runs, with their cached values."""
        for case, part in self.cases.items():
            known = earlier.cases.get(case)
            if known is not None and known.order == part.order and _same(known, part):
                self.cases[case] = known
        return self

    @property
    def _sample(self) -> dict[str, Any]:
        """Facts about the study from one run."""
        return next((run.info for run in self.runs_found if "study" in run.info), {})

    @property
    def study(self) -> str:
        """The study's name."""
        about = self._sample.get("study") or {}
        return str(about.get("name") or self.folder.resolve().name)

    @property
    def description(self) -> str:
        """The study's one-sentence description, empty if it has none."""
        about = self._sample.get("study") or {}
        return str(about.get("description") or "").strip()

    @property
    def notes(self) -> Notes:
        """The notes of a study; empty ones of several folders, or where they cannot be read."""
        with suppress(ScenarioError):
            return Notes() if self.compared is not None else Notes.read(self.folder)
        return Notes()

    @property
    def unlike(self) -> str:
        """Why values of several folders cannot be compared, in a sentence; empty if they can."""
        return "" if self.compared is None else self.compared.unlike

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The algorithms by name, in the order of the scenario."""
        return tuple(dict.fromkeys(run.name for run in self.runs_found))

    @cached_property
    def baselines(self) -> frozenset[str]:
        """The names of baselines, which are not ranked."""
        return frozenset(run.name for run in self.runs_found if run.baseline)

    @cached_property
    def families(self) -> dict[str, str]:
        """The algorithm that each name is a setting or a case of; empty where few were swept."""
        labels = {run.name: run.label for run in self.runs_found}
        several = len(set(labels.values())) < len(labels)
        # Settings in a case are those of a search, and all cases of an algorithm look alike. The
        # same label in several folders is compared by these.
        swept = several and (len(labels) > MANY or bool(self.order) or bool(self.cases))
        return labels if swept and self.compared is None else {}

    @cached_property
    def case_of(self) -> dict[str, str]:
        """The case of each name, by the rule of `cases`; empty unless cases compare algorithms.

        Where each case has one algorithm alone, the cases themselves are what is compared.
        """
        found = {run.name: self._placed(run).case for run in self.runs_found}
        labels = {(found[run.name], run.label) for run in self.runs_found}
        several = len(set(found.values())) > 1
        return found if several and len(labels) > len(set(found.values())) else {}

    @cached_property
    def cases(self) -> dict[str, Results]:
        """The runs of each case, in the order of the scenario; empty where `case_of` is."""
        found = dict.fromkeys(self.case_of.values())
        every = dict.fromkeys(part.case for part in self._settings.values())
        parts: dict[str, list[RunRecord]] = {case: [] for case in every | found if case in found}
        for run in self.runs_found if found else ():
            parts[self.case_of[run.name]].append(run.renamed(self.within[run.name]))
        order = tuple(dict.fromkeys(run.label for run in self.runs_found if not run.baseline))
        return {
            case: Results(self.folder, tuple(runs), order=order) for case, runs in parts.items()
        }

    @cached_property
    def within(self) -> dict[str, str]:
        """Names within their cases: labels, and own settings if an algorithm has several."""
        if not self.case_of:
            return {name: name for name in self.names}
        runs = [self.of(name)[0] for name in self.names]
        settings = Counter((self.case_of[run.name], run.label) for run in runs)
        alone = {run.name: settings[self.case_of[run.name], run.label] == 1 for run in runs}
        return {
            run.name: run.label if alone[run.name] else f"{run.label} ({self._placed(run).own})"
            for run in runs
        }

    def _placed(self, run: RunRecord) -> Placed:
        return self._settings.get(run.setting, Placed("", run.setting))

    @cached_property
    def _settings(self) -> dict[str, Placed]:
        """The parts of each setting; none for a sweep, which has trials as settings."""
        if any("trial" in run.info for run in self.runs_found):
            return {}
        recorded = [run.info.get("scenario") or {} for run in self.runs_found]
        return placed(self.scenario, recorded)

    def of(self, name: str) -> list[RunRecord]:
        """Return the runs of an algorithm by seed."""
        return [*self._by_name.get(name, ())]

    @cached_property
    def _by_name(self) -> dict[str, list[RunRecord]]:
        by_name: dict[str, list[RunRecord]] = {}
        for run in self.runs_found:
            by_name.setdefault(run.name, []).append(run)
        return by_name

    def run(self, name: str, seed: int) -> RunRecord:
        """Return the run of an algorithm with one seed."""
        return next(run for run in self.of(name) if run.seed == seed)

    @cached_property
    def failed(self) -> frozenset[str]:
        """Names of settings with failed runs only; they are drawn but do not set scales."""
        return frozenset(
            name for name in self.names if all(run.status == "failed" for run in self.of(name))
        )

    @cached_property
    def damaged(self) -> tuple[RunRecord, ...]:
        """The runs that are not as they were written; they count as failed."""
        return tuple(run for run in self.runs_found if run.info.get("damaged"))

    @cached_property
    def rivals(self) -> tuple[str, ...]:
        """The ranked names: without baselines and failed ones, unless none are left.

        Those that have not begun are left out, too, unless none has.
        """
        left_out = self.baselines | self.failed
        sound = tuple(name for name in self.names if name not in left_out) or self.names
        return tuple(n for n in sound if any(run.begun for run in self.of(n))) or sound

    def usable(self, name: str) -> list[RunRecord]:
        """Return the runs that means are taken over.

        They are those that began and did not fail; where there is none, those that did not fail,
        or all.
        """
        runs = [run for run in self.of(name) if run.length]
        sound = [run for run in runs if run.status != "failed"]
        return [run for run in sound if run.begun] or sound or runs

    def means(self, what: Callable[[RunRecord], pd.Series | None]) -> pd.DataFrame:
        """Return means over seeds of a recorded value, a column for each algorithm that has it.

        Rows are in the order in which runs have them.
        """
        found = {}
        for name in self.names:
            known = [values for run in self.usable(name) if (values := what(run)) is not None]
            if known:
                found[name] = pd.concat(known, axis=1).mean(axis=1)
        return pd.concat(found, axis=1) if found else pd.DataFrame()

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """Rounds of all runs, one row per round, with the column ``name``."""
        return self._joined("rounds")

    @cached_property
    def recorded(self) -> frozenset[str]:
        """The columns of the `rounds` of any run."""
        return frozenset(name for run in self.runs_found for name in run.recorded)

    def check_column(self, name: str | None) -> None:
        """Raise ScenarioError unless there is a column of a name, if one is given."""
        known = list(map(str, self.rounds.select_dtypes("number")))
        if name is not None and name not in known:
            raise ScenarioError("", unknown("column", str(name), known))

    def column(self, name: str) -> Column:
        """Return the declaration of a column of ``rounds``, as stored in the files.

        Undeclared columns have their name as title; of these, losses are better lower and
        accuracies higher.
        """
        return self._columns.get(name) or Column(name, better=better_by_name(name))

    @cached_property
    def _columns(self) -> dict[str, Column]:
        return by_name(column for run in self.runs_found for column in run.columns.values())

    @cached_property
    def asynchronous(self) -> bool:
        """Whether an algorithm has no rounds, so that its rows are updates of the model."""
        return any("in_flight" in run.recorded for run in self.runs_found)

    @cached_property
    def clients(self) -> pd.DataFrame:
        """Clients of all runs, one row per client that took part, with ``name`` and ``seed``."""
        return self._joined("clients")

    def _joined(self, what: str) -> pd.DataFrame:
        frames = [(run, frame) for run in self.runs_found if len(frame := getattr(run, what))]
        if not frames:
            return pd.DataFrame()
        joined: pd.DataFrame = pd.concat([frame for _, frame in frames], ignore_index=True)
        rows, place = [len(frame) for _, frame in frames], len(frames[0][1].columns)
        for column in ("seed", "name"):
            values = np.repeat([getattr(run, column) for run, _ in frames], rows)
            if column in joined:  # the names of clients
                joined[column] = values
            else:
                joined.insert(place, column, values)
        return joined


def no_runs(folder: Path) -> ScenarioError:
    """Return the refusal of a folder without runs."""
    return ScenarioError(str(folder), "holds no run; give the folder of a study's results")


def per_results(
    function: Callable[Concatenate[Results, _P], _T],
) -> Callable[Concatenate[Results, _P], _T]:
    """Compute a function of results once for each object and all other arguments."""

    @wraps(function)
    def cached(results: Results, /, *args: _P.args, **named: _P.kwargs) -> _T:
        key = (function, args, tuple(named.items()))
        return results.cached(key, lambda: function(results, *args, **named))

    return cached


def _same(one: Results, other: Results) -> bool:
    """Return whether results have the very same runs."""
    return [*map(id, one.runs_found)] == [*map(id, other.runs_found)]


def _names(infos: list[dict[str, Any]], scenario: str) -> list[str]:
    """Return a name for each run: its label, its setting where only that differs, else both.

    The setting is omitted if a label has only one; its text is what differs in the grid.
    """
    texts = [setting_of(info) for info in infos]
    if any(texts) and not has_cases(scenario):
        short = short_names(tried(scenario), [info.get("scenario") or {} for info in infos])
        texts = [short.get(text, text) for text in texts]
    labels = [str(info["label"]) for info in infos]
    several: dict[str, set[str]] = {}
    for label, text in zip(labels, texts, strict=True):
        several.setdefault(label, set()).add(text)
    template = "{text}" if len(several) == 1 else "{label} ({text})"
    return [
        template.format(label=label, text=text) if text and len(several[label]) > 1 else label
        for label, text in zip(labels, texts, strict=True)
    ]


def _by_value(name: str) -> list[str | float]:
    """Return a sort key that compares numbers in names by value: d=6 before d=15."""
    parts = _NUMBER.split(name)
    return [float(part) if place % 2 else part for place, part in enumerate(parts)]


def _order(runs: list[RunRecord]) -> dict[str, int]:
    """Return the index of each label among the algorithms of the scenario."""
    scenario: Any = next((run.info["scenario"] for run in runs if run.info.get("scenario")), {})
    listed = scenario.get("algorithms") if isinstance(scenario, dict) else None
    labels = [
        str(entry.get("label") or entry.get("name"))
        for entry in listed or []
        if isinstance(entry, dict)
    ]
    return {label: place for place, label in reversed(list(enumerate(labels)))}
