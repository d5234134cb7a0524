"""Sweeps: trials are proposed, run and scored batch by batch.

The values and scores of trials are read from the folders of their runs. A sweep that was killed
keeps these and runs the missing trials, so that it ends as without the interruption.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rayfed.core.announced import read_table, run_folders
from rayfed.core.entries import Damaged, digest_of
from rayfed.core.errors import RayfedError, ScenarioError, clipped, unknown
from rayfed.core.inside import opened
from rayfed.core.run_state import read_record
from rayfed.core.threads import one_thread
from rayfed.engine.columns import TAKEN, catalogue, diagnostics
from rayfed.engine.run import Run
from rayfed.engine.stopping import PRUNED, Pace
from rayfed.report.read import units
from rayfed.runs.backend import ProgressDisplay, Report, RunProgress
from rayfed.runs.files.outcome import ended, reason
from rayfed.runs.files.place import shown
from rayfed.runs.files.store import publish_text
from rayfed.runs.resume import adopt, check_same
from rayfed.study import Study, plain
from rayfed.study.plan.plan import Plan, Planner
from rayfed.study.search import Recorded, Search, Trial

TRIALS = "trials.csv"
"""The file of a result folder that lists all trials."""
MOMENTS = (0.25, 0.5, 0.75)
"""Moments at which runs are compared with earlier ones, as shares of their median length."""
FEWEST = 4
"""The fewest earlier runs with which runs are pruned."""

Execute = Callable[[Sequence[Run], dict[str, Any], bool, Report], dict[str, str]]


@dataclass(frozen=True)
class SweepPlan(Plan):
    """A sweep with the `runs` of its first batch.

    Parameters
    ----------
    search : Search
        The source of the trials.
    first : tuple of Trial
        The trials of the first batch.
    planner : Planner
        The source of their runs.
    """

    search: Search = field(repr=False)
    first: tuple[Trial, ...]
    planner: Planner = field(repr=False)


@dataclass(frozen=True)
class Score:
    """The score of a trial.

    Parameters
    ----------
    value : float
        Mean over seeds of the objective at the end; NaN if there is none.
    status : "finished", "pruned" or "failed"
    reason : str
        The reason of a failure; empty else.
    """

    value: float
    status: str
    reason: str = ""


def prepare(study: Study, folder: Path | None = None) -> SweepPlan:
    """Check a sweep, load its data and plan the first batch; nothing is started or written.

    Parameters
    ----------
    study : Study
    folder : Path, optional
        The folder of a sweep that is resumed, with its trials.

    Raises
    ------
    ScenarioError
        If the scenario, its search or its data are wrong, or the search has changed meanwhile.
    """
    goal = SweepGoal.of(study)
    if folder is not None:
        _check_search(study, folder)
    search, planner = Search(study, _recorded(study, folder) if folder else {}), Planner()
    first = tuple(search.propose())
    runs = _plan(search, planner, first)
    goal.check(runs)
    return SweepPlan(study, runs, planner.loader.tables, search, first, planner)


def _recorded(study: Study, folder: Path) -> Recorded:
    """Return the values of the trials in a folder, by algorithm and number.

    Repetitions, which have no runs, have the values of the trials that they repeat.
    """
    index, found = {label: k for k, label in enumerate(study.labels)}, {}
    for held in map(read_record, run_folders(folder)):
        if "trial" in held and held["label"] in index:
            found[index[held["label"]], held["trial"]["number"]] = held["trial"]["values"]
    with suppress(OSError, ValueError):  # it is written when a batch has ended
        columns = ["algorithm", "trial", "same_as"]
        with opened(folder / TRIALS) as file:
            listed = pd.read_csv(file, usecols=columns)[columns].dropna()
        for label, number, first in listed.itertuples(index=False):
            if (index.get(label), first) in found:
                found[index[label], number] = found[index[label], int(first)]
    return found


@dataclass(frozen=True)
class SweepGoal:
    """The objective of a sweep: a column at the end of a run.

    Parameters
    ----------
    column : str
        Of ``rounds``.
    sign : float
        1 where lower is better, -1 where higher is.
    """

    column: str
    sign: float

    @classmethod
    def of(cls, study: Study, runs: Iterable[Run] = ()) -> SweepGoal:
        """Return the objective of a scenario; by default the validation loss if rows are held out.

        Parameters
        ----------
        study : Study
        runs : iterable of Run
            Planned runs, whose data may have validation rows of their own.

        Raises
        ------
        ScenarioError
            If `sweep.by` names no column of which one end is better.
        """
        held_out = study.validated or any(run.measuring.validation for run in runs)
        column = study.sweep.by or ("validation_loss" if held_out else "loss")
        better = {e.column.name: e.column.better for e in catalogue() if e.table == "rounds"}
        better |= study.own_metrics
        scores = [name for name, which in better.items() if which is not None]
        if column not in scores:
            raise ScenarioError("sweep.by", unknown("score", column, scores))
        return cls(column, -1.0 if better[column] == "higher" else 1.0)

    def check(self, runs: Iterable[Run]) -> None:
        """Refuse a column of a plug-in that one of some planned runs has not.

        Raises
        ------
        ScenarioError
            It names the run's algorithm.
        """
        for run in runs:
            select, algorithm = run.participation.select, run.training.algorithm
            own = {column.name for column in diagnostics(algorithm, select, run.measured)}
            if self.column not in TAKEN | own:
                text = f"rows of '{run.label}' have no '{self.column}'"
                how = "name its measure in evaluate.measures, or choose another column"
                raise ScenarioError("sweep.by", f"{text}; {how}")

    def read(self, run: Path) -> pd.DataFrame:
        """Return ``time_s`` and the ``value`` of the evaluated rows of a run.

        Raises
        ------
        RayfedError
            If they exist and cannot be read, which does not mean that the trial failed.
        """
        try:
            table = read_table(run, "rounds", read_record(run), ["time_s", self.column])
        except (Damaged, OSError, ValueError) as error:
            raise _unreadable(run, str(error)) from error
        if table is None or self.column not in table.column_names:  # it failed before its first row
            return pd.DataFrame({"time_s": [], "value": []})
        time_s, value = (table[name].to_numpy() for name in ("time_s", self.column))
        known = np.isfinite(value)
        return pd.DataFrame({"time_s": time_s[known], "value": value[known]})


@dataclass
class SweepDriver:
    """Driver of the trials of a sweep that have not ended.

    Parameters
    ----------
    plan : SweepPlan
    folder : Path
        The result folder.
    execute : callable
        A function that executes runs, see `rayfed.runs.backend.Backend`.
    resume : bool
        Whether ended runs are kept.
    watch : ProgressDisplay
        The display of the progress and of the best trial of each algorithm so far.
    accept_changes : bool
        Whether runs are resumed although settings that decide their results have changed.

    Attributes
    ----------
    outcome : dict of str to str
        The status of each ended run, by its folder.
    scores : dict of (int, int) to Score
        By algorithm and number.
    scored, earlier : list of Trial
        Those with a score, and those of earlier batches.
    """

    plan: SweepPlan
    folder: Path
    execute: Execute
    resume: bool
    watch: ProgressDisplay
    accept_changes: bool = False
    outcome: dict[str, str] = field(init=False, default_factory=dict)
    scores: dict[tuple[int, int], Score] = field(init=False, default_factory=dict)
    scored: list[Trial] = field(init=False, default_factory=list)
    earlier: list[Trial] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        study = self.plan.study
        self.objective, self.seeds = SweepGoal.of(study, self.plan.runs), study.seeds

    def conduct(self) -> dict[str, str]:
        """Run trials batch by batch, and return the outcome of each run.

        Raises
        ------
        RayfedError
            If this machine stopped a run; then no further trial is proposed.
        """
        search, batch = self.plan.search, list(self.plan.first)
        while batch:
            self._run([trial for trial in batch if trial.same_as is None])
            scores = [self._score(trial) for trial in batch]
            search.tell(batch, [self._loss(score) for score in scores])
            self.earlier += batch
            publish_text(self.folder / TRIALS, self._table().to_csv(index=False))
            with one_thread():
                batch = search.propose()
        return self.outcome

    def _run(self, trials: Sequence[Trial]) -> None:
        """Run the trials of a batch that have not ended.

        Raises
        ------
        RayfedError
            If this machine stopped one.
        """
        names = [trial.folder(seed) for trial in trials for seed in self.seeds]
        done = ended(self.folder, names) if self.resume else {}
        left = [t for t in trials if any(t.folder(seed) not in done for seed in self.seeds)]
        self.outcome |= done
        self._show(trials)
        if left:
            if tuple(left) == self.plan.first:
                runs = self.plan.runs
            else:
                with one_thread():
                    runs = _plan(self.plan.search, self.plan.planner, left)
            if self.resume:  # later batches were not compared before
                check_same(self.folder, runs, accept=self.accept_changes)
                runs = adopt(self.folder, runs)
            waiting = [self._paced(run) for run in runs if run.folder not in done]
            # files of runs that have not ended are of a sweep that was killed
            self.execute(waiting, self.plan.tables, self.resume, self._report(trials))
        done = ended(self.folder, names)
        stopped = [name for name in names if name not in done]
        if stopped:
            why = f"{stopped[0]} was stopped by this machine: {reason(self.folder / stopped[0])}"
            how = f"resume with: rayfed resume {shlex.quote(shown(self.folder))}"
            raise RayfedError(f"{why}; no trial is chosen without it, {how}")
        self.outcome |= done
        self._show(trials)

    def _report(self, trials: Sequence[Trial]) -> Report:
        seen = 0

        def report(progress: Mapping[str, RunProgress], outcome: Mapping[str, str]) -> None:
            nonlocal seen
            if len(outcome) > seen:
                seen = len(outcome)
                self.outcome |= {k: v for k, v in outcome.items() if v in ("finished", "failed")}
                self._show(trials)
            self.watch.runs(progress, self.outcome)

        return report

    def _show(self, trials: Sequence[Trial]) -> None:
        """Show the best trial of each algorithm so far."""
        for trial in trials:
            if all(trial.folder(seed) in self.outcome for seed in self.seeds):
                self._score(trial)
        best: dict[str, Trial] = {}
        for trial in sorted(self.scored, key=lambda trial: self._loss(self._score(trial))):
            if self._score(trial).status == "finished":
                best.setdefault(trial.label, trial)
        column = self.objective.column
        texts = [
            f"{label} {units.number(self._score(trial).value)} {trial.setting}".strip()
            for label, trial in best.items()
        ]
        if texts:
            self.watch.best(f"best {column}: {'; '.join(texts)}")

    def _score(self, trial: Trial) -> Score:
        """Return the score of an ended trial, or of the trial that it repeats.

        A failed seed makes it a failed trial.
        """
        key = (trial.algorithm, trial.same_as or trial.number)
        if key not in self.scores:
            self.scores[key] = self._read(trial)
            self.scored.append(trial)
        return self.scores[key]

    def _read(self, trial: Trial) -> Score:
        runs = [self.folder / trial.folder(seed) for seed in self.seeds]
        records = [read_record(run) for run in runs]
        ends = [self.objective.read(run)["value"] for run in runs]
        last = [float(values.iloc[-1]) if len(values) else math.nan for values in ends]
        value = sum(last) / len(last)
        for run, held in zip(runs, records, strict=True):
            if not held or held.get("damaged"):
                raise _unreadable(run, "run.json is not what was written")
            if held["status"] == "failed":
                return Score(value, "failed", reason(run))
        if math.isnan(value):
            return Score(value, "failed", f"'{self.objective.column}' was not recorded")
        pruned = any(held["stopped_by"] == PRUNED for held in records)
        return Score(value, PRUNED if pruned else "finished")

    def _loss(self, score: Score) -> float:
        """Return the number for the sampler: lower is better, a failure is infinite."""
        return math.inf if score.status == "failed" else self.objective.sign * score.value

    def _paced(self, run: Run) -> Run:
        """Return a run with the bounds of its pruning, from the runs of earlier batches."""
        if not self.plan.study.sweep.prune:
            return run
        earlier = [
            trial.folder(run.seed)
            for trial in self.earlier
            if trial.label == run.label
            and trial.same_as is None
            and self.outcome[trial.folder(run.seed)] == "finished"
        ]
        histories = [self.objective.read(self.folder / name) for name in earlier]
        bounds = tuple(median_bounds(histories, self.objective.sign))
        pace = Pace(self.objective.column, self.objective.sign, bounds)
        return replace(run, ending=replace(run.ending, pace=pace))

    def _table(self) -> pd.DataFrame:
        """Return a row for each trial so far."""
        rows: list[dict[str, Any]] = []
        for trial in sorted(self.earlier, key=lambda trial: (trial.algorithm, trial.number)):
            score = self._score(trial)
            rows.append(
                {"algorithm": trial.label, "trial": trial.number}
                | {key: plain(value) for key, value in trial.own.items()}
                | {self.objective.column: score.value, "status": score.status}
                | {"reason": score.reason, "same_as": trial.same_as}
            )
        frame = pd.DataFrame(rows)
        ends = [self.objective.column, "status", "reason", "same_as"]
        frame["same_as"] = frame["same_as"].astype("Int64")
        keys = {key for trial in self.earlier for key in trial.own}
        for key in keys:  # no conversion where other algorithms have no such key
            frame[key] = frame[key].astype(object)
        return frame[[c for c in frame.columns if c not in ends] + ends]


def _unreadable(run: Path, why: str) -> RayfedError:
    """Return the error of a run of unknown status, which does not count as failed."""
    what = clipped(why.partition("\n")[0], 100)
    how = f"remove the folder and resume with: rayfed resume {shlex.quote(shown(run.parent))}"
    return RayfedError(f"{run}: cannot be read ({what}); no trial is chosen without it, {how}")


def median_bounds(histories: Sequence[pd.DataFrame], sign: float) -> list[tuple[float, float]]:
    """Return the median rule of earlier runs: seconds, and the value to be reached by then.

    Golovin et al., "Google Vizier: a service for black-box optimization", KDD 2017, section 3.2.1.

    Parameters
    ----------
    histories : sequence of DataFrame
        ``time_s`` and ``value`` of the evaluated rows of each run, pruned ones included.
    sign : float
        1 where lower is better, -1 where higher is.

    Returns
    -------
    list of (float, float)
        At each of `MOMENTS` the median, times the sign, over the runs that reached it; none where
        they are fewer than `FEWEST`, or no run takes time.
    """
    lengths = [float(history["time_s"].max()) for history in histories if len(history)]
    if len(lengths) < FEWEST or not np.median(lengths) > 0:
        return []
    bounds = []
    for share in MOMENTS:
        moment = share * float(np.median(lengths))
        reached = [
            sign * float(history.loc[history["time_s"] <= moment, "value"].iloc[-1])
            for history in histories
            if len(history) and history["time_s"].min() <= moment <= history["time_s"].max()
        ]
        if len(reached) >= FEWEST:
            bounds.append((moment, float(np.median(reached))))
    return bounds


def _check_search(study: Study, folder: Path) -> None:
    """Refuse to go on with another search than that of the trials in a folder."""
    now = _asked(study)
    for held in map(read_record, run_folders(folder)):
        if (held.get("trial") or {}).get("search", now) != now:
            text = "search or sweep has changed since it began, and other trials would be chosen"
            raise ScenarioError(shown(folder), f"{text}; undo that, or sweep anew")


def _asked(study: Study) -> str:
    """Return the digest of what is searched for, and how."""
    whole = study.to_dict()
    return digest_of(json.dumps([whole["search"], whole["sweep"]], default=str).encode())


def _plan(search: Search, planner: Planner, trials: Sequence[Trial]) -> tuple[Run, ...]:
    """Return the runs of trials, with the trial in the record of each."""
    runs = planner.runs(
        [(trial.setting, search.study_of(trial)) for trial in trials if trial.same_as is None]
    )
    by_name = {(trial.label, trial.setting): trial for trial in trials}
    asked, made = _asked(search.study), []
    for run in runs:
        trial = by_name[run.label, run.setting]
        values = {key: plain(value) for key, value in trial.values.items()}
        held = {"number": trial.number, "values": values, "search": asked}
        made.append(replace(run, record={**run.record, "trial": held}))
    return tuple(made)
