"""Result folders as frames, including failed and running studies."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from rayfed.core.announced import run_folders
from rayfed.core.columns import Better, Column, by_name
from rayfed.core.entries import Damaged, check, check_format, entries, intact
from rayfed.core.errors import ScenarioError, clipped
from rayfed.core.files import read_json
from rayfed.core.leases import is_left
from rayfed.core.yamlfile import read_text
from rayfed.report.read.compared import Compared
from rayfed.report.read.run_files import (
    UNREADABLE,
    Fit,
    LabelCounts,
    Pulls,
    Recorded,
    Walked,
    retried,
)
from rayfed.report.read.settings import Placed, has_cases, placed, short_names, tried
from rayfed.report.read.usage import Usage, by_speed

COMMUNICATIONS = "communications"
MANY = 8
"""Names beyond which settings of one algorithm are drawn as one family, beside those of a case."""
_NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)")


Tell = Callable[[int, int, str], object]
"""Is told how many steps are done, of how many, and what is done."""


@dataclass(frozen=True)
class RunRecord:
    """One run: an algorithm under one seed.

    Parameters
    ----------
    folder : Path
        Folder of the run.
    info : dict
        Content of its ``run.json``.
    name : str
        Name of the algorithm on the page: its label, with the setting if several settings share
        a label.
    files : Recorded, optional
        What is in the folder; None if it is damaged.
    """

    folder: Path
    info: dict[str, Any]
    name: str
    files: Recorded | None = None

    @property
    def rounds(self) -> pd.DataFrame:
        """Its table of rounds; empty if missing, as the other tables are."""
        return pd.DataFrame() if self.files is None else self.files.rounds

    @property
    def columns(self) -> Mapping[str, Column]:
        """Declarations of the columns of ``rounds``; missing in files of earlier versions."""
        return {} if self.files is None else self.files.columns

    @property
    def events(self) -> pd.DataFrame:
        """Its events, all of them: figures read its summary, or the first events."""
        return pd.DataFrame() if self.files is None else self.files.events

    @property
    def clients(self) -> pd.DataFrame:
        """Its clients."""
        return pd.DataFrame() if self.files is None else self.files.clients

    @property
    def personal(self) -> pd.DataFrame:
        """Evaluations of the clients' personal models; empty if there are none."""
        return pd.DataFrame() if self.files is None else self.files.personal

    @property
    def away(self) -> pd.DataFrame | None:
        """``client, start_s, end_s``: when clients were unavailable; None if not recorded."""
        return None if self.files is None else self.files.away

    @property
    def fit(self) -> Fit | None:
        """Predictions of the final model for some rows; None if there is no picture of it."""
        return None if self.files is None else self.files.fit

    @property
    def pulls(self) -> Pulls | None:
        """Where clients would take its model; None unless the measure ``path`` has told."""
        return None if self.files is None else self.files.pulls

    @property
    def held(self) -> LabelCounts | None:
        """Labels of the clients; None if targets are numbers, or they were not counted."""
        return None if self.files is None else self.files.held

    @property
    def walk(self) -> Walked | None:
        """The walk of its server; None if there is none, or the run has not ended."""
        return None if self.files is None else self.files.walk

    @cached_property
    def client_names(self) -> dict[int, str]:
        """Names of clients by id, with the fault of faulty ones.

        Honest ones have none if the data do not name them.
        """
        names: dict[int, str] = {}
        if "name" in self.clients:
            names = dict(zip(self.clients["client"].tolist(), self.clients["name"], strict=True))
        return names | {i: f"{names.get(i, i)} ({fault})" for i, fault in self.faults.items()}

    @cached_property
    def faults(self) -> dict[int, str]:
        """The faults of clients by id; known when the run has ended."""
        if "fault" not in self.clients:
            return {}
        faulty = self.clients[self.clients["fault"] != ""]
        return dict(zip(faulty["client"].tolist(), faulty["fault"], strict=True))

    @cached_property
    def clients_by_speed(self) -> pd.DataFrame:
        """A row a client that is known of, the fastest first; see `speeds.by_speed`."""
        return by_speed(self.clients, self.usage.asked)

    def called(self, clients: Iterable[Any]) -> list[int | str]:
        """Return what clients are called: their names in the data, or their ids."""
        return [self.client_names.get(int(client), int(client)) for client in clients]

    def called_as(self, name: str) -> RunRecord:
        """Return the same run by another name; what its clients did is worked out once."""
        made = replace(self, name=name)
        made.__dict__["usage"] = self.usage  # as `cached_property` keeps it
        return made

    @property
    def label(self) -> str:
        """The label of its algorithm."""
        return str(self.info["label"])

    @property
    def setting(self) -> str:
        """The name of its setting in a grid, its case or its trial; empty without."""
        return _setting(self.info.get("setting"))

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return int(self.info.get("seed", 0))

    @property
    def status(self) -> str:
        """Return ``running``, ``finished`` or ``failed``."""
        return str(self.info.get("status", "running"))

    @cached_property
    def state(self) -> str:
        """Its status; ``interrupted`` if it has not ended and nobody writes it any more."""
        left = self.status == "running" and is_left(self.folder)
        return "interrupted" if left else self.status

    @property
    def baseline(self) -> bool:
        """Whether it is a reference that is not ranked."""
        return bool(self.info.get("baseline", False))

    @cached_property
    def history(self) -> pd.DataFrame:
        """The rounds with the clocks as totals; see `series.history`."""
        frame = self.rounds.copy()
        if {"bytes_down", "bytes_up"} <= set(frame):
            frame["bytes"] = (frame["bytes_down"].fillna(0) + frame["bytes_up"].fillna(0)).cumsum()
        if COMMUNICATIONS not in frame and "bytes_up" in frame:
            frame[COMMUNICATIONS] = frame["bytes_up"].fillna(0) > 0
        totals = (("participants", "updates"), ("bytes_up", "bytes_up"), (COMMUNICATIONS,) * 2)
        for source, total in totals:
            if source in frame:
                frame[total] = frame[source].fillna(0).cumsum()
        return frame

    @cached_property
    def usage(self) -> Usage:
        """What its clients' time, computing and traffic went into."""
        summed = None if self.files is None else self.files.summed
        return Usage(self.rounds, self.clients, summed, self.baseline)

    @property
    def asked(self) -> int:
        """How many works its clients began; 0 if no events are recorded."""
        asked = self.usage.asked
        return int(asked["asked"].sum()) if len(asked) else 0


@dataclass(frozen=True)
class Results:
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
        cls, folder: str | Path, tell: Tell | None = None, only: Collection[str] | None = None
    ) -> Results:
        """Read a result folder.

        Parameters
        ----------
        folder : str or Path
            The result folder of a study.
        tell : callable, optional
            Is told how many runs are read, of how many, and that they are.
        only : collection of str, optional
            Names of the run folders that are read; all if None.

        Raises
        ------
        ScenarioError
            If there is no run in the folder.
        """
        place = Path(folder)
        folders = [path for path in run_folders(place) if only is None or path.name in only]
        if not folders:
            raise ScenarioError(str(place), "holds no run; give the folder of a study's results")
        return cls.of_runs(place, {path: _info(path) for path in folders}, _read_run, tell)

    @classmethod
    def of_runs(
        cls,
        place: Path,
        infos: Mapping[Path, dict[str, Any]],
        read: Callable[[Path, dict[str, Any], str], RunRecord],
        tell: Tell | None = None,
    ) -> Results:
        """Return runs by their folders in a result folder, with what their ``run.json`` says.

        `read` makes each run of its folder, this record, and its name among the others.
        """
        text = place / "scenario.yaml"
        scenario = read_text(text) if text.exists() else ""
        names = _names([*infos.values()], scenario)
        runs = []
        for (path, info), name in zip(infos.items(), names, strict=True):
            runs.append(read(path, info, name))
            if tell is not None:
                tell(len(runs), len(infos), "reading runs")
        order = _order(runs)
        last = len(order)
        runs.sort(key=lambda run: (order.get(run.label, last), _by_value(run.name), run.seed))
        return cls(place, tuple(runs), scenario)

    @property
    def _sample(self) -> dict[str, Any]:
        """What one run says about the study."""
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
        # same label in several folders is what these are compared by.
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
        parts = {case: self._case(case) for case in every | found if case in found}
        order = tuple(dict.fromkeys(run.label for run in self.runs_found if not run.baseline))
        return {case: replace(part, order=order) for case, part in parts.items()}

    def _case(self, case: str) -> Results:
        """Return the runs of a case by their names in it."""
        runs = [run for run in self.runs_found if self.case_of[run.name] == case]
        return Results(self.folder, tuple(run.called_as(self.within[run.name]) for run in runs))

    @cached_property
    def within(self) -> dict[str, str]:
        """What each name is called in its case: its label, and its own setting if it has others."""
        own: dict[tuple[str, str], set[str]] = {}
        for run in self.runs_found:
            held = own.setdefault((self.case_of.get(run.name, ""), run.label), set())
            held.add(self._placed(run).own)
        return {
            run.name: run.name
            if not self.case_of
            else f"{run.label} ({self._placed(run).own})"
            if len(own[self.case_of[run.name], run.label]) > 1
            else run.label
            for run in self.runs_found
        }

    def _placed(self, run: RunRecord) -> Placed:
        return self._settings.get(run.setting, Placed("", run.setting))

    @cached_property
    def _settings(self) -> dict[str, Placed]:
        """The parts of each setting; none of a sweep, whose settings are trials."""
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
        """The names whose runs all failed; they are drawn but do not set scales."""
        return frozenset(
            name for name in self.names if all(run.status == "failed" for run in self.of(name))
        )

    @cached_property
    def damaged(self) -> tuple[RunRecord, ...]:
        """The runs that are not as they were written; they count as failed."""
        return tuple(run for run in self.runs_found if run.info.get("damaged"))

    @cached_property
    def rivals(self) -> tuple[str, ...]:
        """The ranked names: without baselines and failed ones, unless none are left."""
        left_out = self.baselines | self.failed
        return tuple(name for name in self.names if name not in left_out) or self.names

    def usable(self, name: str) -> list[RunRecord]:
        """Return the runs that means are taken over: those that did not fail, or all if all did."""
        runs = [run for run in self.of(name) if len(run.rounds)]
        return [run for run in runs if run.status != "failed"] or runs

    def means(self, what: Callable[[RunRecord], pd.Series | None]) -> pd.DataFrame:
        """Return means over seeds of what runs have, a column for each algorithm that has any."""
        found = {}
        for name in self.names:
            known = [values for run in self.usable(name) if (values := what(run)) is not None]
            if known:
                found[name] = pd.concat(known, axis=1).mean(axis=1)
        return pd.DataFrame(found)

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """Rounds of all runs, one row per round, with the column ``name``."""
        return self._joined("rounds")

    def column(self, name: str) -> Column:
        """Return the declaration of a column of ``rounds``, as stored in the files.

        Undeclared columns have their name as title; of these, losses are better lower and
        accuracies higher.
        """
        return self._columns.get(name) or Column(name, better=_better_by_name(name))

    @cached_property
    def _columns(self) -> dict[str, Column]:
        return by_name(column for run in self.runs_found for column in run.columns.values())

    @cached_property
    def asynchronous(self) -> bool:
        """Whether an algorithm has no rounds, so that its rows are updates of the model."""
        return any("in_flight" in run.rounds for run in self.runs_found)

    @cached_property
    def clients(self) -> pd.DataFrame:
        """Clients of all runs, one row per client that took part, with ``name`` and ``seed``."""
        return self._joined("clients")

    def _joined(self, what: str) -> pd.DataFrame:
        frames = [
            getattr(run, what).assign(name=run.name, seed=run.seed)
            for run in self.runs_found
            if len(getattr(run, what))
        ]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _read_run(folder: Path, info: dict[str, Any], name: str) -> RunRecord:
    """Read one run; of a damaged one nothing but what it was, as a failed run."""
    if not info.get("damaged"):
        try:
            check(folder, entries(info.get("files") or {}))
            found = Recorded(folder, info)
            found.read()
            return RunRecord(folder, info, name, found)
        except Damaged as error:
            info = _as_damaged(info, str(error))
        except UNREADABLE as error:
            info = _as_damaged(info, f"it cannot be read ({clipped(error, 120)})")
    return RunRecord(folder, info, name)


def _as_damaged(info: dict[str, Any], what: str) -> dict[str, Any]:
    reason = f"damaged: {what}; rayfed resume mends it"
    return info | {"status": "failed", "reason": reason, "damaged": True}


def _better_by_name(column: str) -> Better | None:
    if column.endswith("accuracy"):
        return "higher"
    return "lower" if column.endswith(("loss", "loss_gap")) else None


def _info(folder: Path) -> dict[str, Any]:
    """Return what ``run.json`` says; that of a failed run where it is damaged."""

    def read() -> dict[str, Any]:
        found = read_json(folder / "run.json")
        if not isinstance(found, dict):
            raise ValueError("no record of a run")
        check_format(found, folder / "run.json")
        if not isinstance(found.get("status", "running"), str):
            raise ValueError("no record of a run")
        if not intact(found):
            raise ValueError("the record of a run is not what was written")
        return {"label": folder.name, **found, "seed": int(found.get("seed", 0))}

    try:
        return retried(read)
    except (OSError, ValueError, TypeError):
        label, _, seed = folder.name.rpartition("-seed")
        known = {"label": label or folder.name, "seed": int(seed) if seed.isdecimal() else 0}
        return _as_damaged(known, "run.json is not what was written")


def _names(infos: list[dict[str, Any]], scenario: str) -> list[str]:
    """Return a name for each run: its label, its setting where only that differs, else both.

    The setting is omitted if a label has only one; its text is what differs in the grid.
    """
    texts = [_setting(info.get("setting")) for info in infos]
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


def _setting(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in value.items())
    return str(value) if value else ""


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
