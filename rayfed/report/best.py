"""The best setting of each algorithm in a study with a grid or a search."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import yaml

from rayfed.core.columns import Column
from rayfed.core.distribution import Distribution
from rayfed.core.dotted import setting_name
from rayfed.core.errors import ScenarioError, listed, many, unknown
from rayfed.core.older import renewed
from rayfed.core.yamlfile import yaml_text
from rayfed.report.ranking import costs_of
from rayfed.report.read.curves import History, crossing, history
from rayfed.report.read.results import Results, RunRecord
from rayfed.report.read.settings import (
    has_cases,
    key_by_place,
    labels,
    objective,
    searched,
    short_keys,
    tried,
)
from rayfed.report.verdicts import Verdict, verdict
from rayfed.report.writing import replace

PRUNED = "pruned"
"""The stopping rule of runs that a sweep ends early, as they are behind others."""
GOOD = 0.25
"""The best share of the trials, which counts as good."""
FEWEST = 12
"""The fewest trials of which importance is computed."""
_FREE = ("name", "algorithms", "grid")  # keys in which scenarios of winners may differ
_FEWEST = 3  # values of a key that has edges
_SEEDS = 3  # of the best settings, at least
Shorten: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True)
class Aim:
    """The criterion of the best setting.

    Parameters
    ----------
    column : str
        Of ``rounds.parquet``: a loss or an accuracy.
    at : int, optional
        The last value until this round counts; the last of all if None.
    target : float, optional
        The fewest rounds to this value are best, not the best value.
    higher : bool
        Whether higher values of the column are better.
    """

    column: str
    at: int | None = None
    target: float | None = None
    higher: bool = False

    @classmethod
    def of(cls, results: Results, column: str | None, at: int | None, target: str | None) -> Aim:
        """Return the criterion that the options of a command give.

        Raises
        ------
        ScenarioError
            If an option names no column, or one of which neither end is best.
        """
        if target is None:
            return cls(column or _default(results), at)._checked(results, "--by")
        if column is not None or at is not None:
            raise ScenarioError("--target", "excludes --by and --at; leave them out")
        name, _, number = target.partition("=")
        try:
            value = float(number)
        except ValueError:
            text = f"found '{target}'; give a column and a number, such as loss_gap=1e-6"
            raise ScenarioError("--target", text) from None
        return cls(name.strip(), target=value)._checked(results, "--target")

    def _checked(self, results: Results, option: str) -> Aim:
        better = {name: results.column(name).better for name in _recorded(results)}
        scores = [name for name in better if better[name] is not None]
        if self.column not in scores:
            raise ScenarioError(option, unknown("score", self.column, scores))
        return changed(self, higher=better[self.column] == "higher")

    @property
    def sign(self) -> float:
        """1 where lower values are better, -1 where higher ones are."""
        return -1.0 if self.higher else 1.0

    @property
    def held_out(self) -> bool:
        """Whether the column is measured on rows held out for tuning, separate from test rows."""
        return "validation" in self.column

    @property
    def text(self) -> str:
        """The criterion in a few words."""
        if self.target is not None:
            return f"{self.column} = {self.target:g} in the fewest rounds"
        return f"{self.column} {'at the end' if self.at is None else f'at round {self.at}'}"

    def value(self, frame: History) -> float:
        """Return the last known value of a run's history until the round; NaN if there is none."""
        if self.column not in frame:
            return math.nan
        last = math.inf if self.at is None else self.at
        values = np.asarray(frame[self.column], np.float64)
        known = values[~np.isnan(values) & (frame["round"] <= last)]
        return float(known[-1]) if len(known) else math.nan

    def score(self, frame: History, column: Column) -> float:
        """Return the number by which a run is ranked: lower is better, infinity is no value."""
        if self.target is None:
            value = self.value(frame)
            return math.inf if math.isnan(value) else self.sign * value
        place = crossing(frame, column, self.target)
        return math.inf if place is None else float(frame["round"][place])


@dataclass(frozen=True)
class Candidate:
    """One setting of one algorithm, with all its seeds.

    Parameters
    ----------
    algorithm : str
        The label of the algorithm, or without a grid its own name.
    setting : str
        The setting of the grid, or the label.
    runs : tuple of RunRecord
        One for each seed.
    value : float
        Mean over seeds of the value of the criterion, NaN where a seed has none.
    scores : mapping of int to float
        The score of each seed, see `Aim.score`.
    tests : mapping of str to float
        Mean test loss and accuracy over seeds; empty unless the criterion is of other rows.
    """

    algorithm: str
    setting: str
    runs: tuple[RunRecord, ...]
    value: float
    scores: Mapping[int, float]
    tests: Mapping[str, float]

    @property
    def failed(self) -> bool:
        """Whether a run failed, so that the setting cannot win."""
        return any(run.status == "failed" for run in self.runs)

    @property
    def pruned(self) -> bool:
        """Whether a sweep ended a run early, so that the setting wins only if no other is left."""
        return any(run.info.get("stopped_by") == PRUNED for run in self.runs)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the algorithm."""
        return dict(self.runs[0].info.get("settings") or {})

    @property
    def shared(self) -> dict[str, Any]:
        """The scenario without the settings of the algorithm."""
        scenario = self.runs[0].info.get("scenario") or {}
        return {key: value for key, value in scenario.items() if key not in _FREE}

    @property
    def score(self) -> float:
        """The mean of its scores."""
        return _mean(self.scores.values())

    def place(self, aim: Aim) -> tuple[float, ...]:
        """Return the key by which candidates are sorted, the best first."""
        value = math.inf if math.isnan(self.value) else aim.sign * self.value
        return (self.failed, self.pruned, self.score, value)


@dataclass(frozen=True)
class Winner:
    """The best candidate of an algorithm.

    Parameters
    ----------
    best : Candidate
        It failed only if all did.
    tried, failed : int
        Numbers of candidates, and of those that failed.
    edges : tuple of str
        Keys of the grid of which it has the first or last number: a wider grid may hold a better
        one.
    verdict : Verdict, optional
        The best candidate against the others that did not fail, by their settings. None where there
        is one seed.
    """

    best: Candidate
    tried: int
    failed: int
    edges: tuple[str, ...] = ()
    verdict: Verdict | None = None

    @property
    def undecided(self) -> int:
        """Number of other candidates that the best one is not better than."""
        return 0 if self.verdict is None else len(self.verdict.level) - 1


@dataclass(frozen=True)
class Best:
    """The best settings of a study.

    Parameters
    ----------
    results : Results
        The result folder.
    aim : Aim
        The criterion.
    """

    results: Results
    aim: Aim

    @cached_property
    def winners(self) -> tuple[Winner, ...]:
        """One for each algorithm, in the order of the scenario."""
        return tuple(self._winner(candidates) for candidates in self.rivals.values())

    @cached_property
    def rivals(self) -> dict[str, list[Candidate]]:
        """The candidates of each algorithm, in the order of the scenario."""
        swept = any(run.setting for run in self.results.runs_found)
        rivals: dict[str, list[Candidate]] = {}
        seen = set()
        for name in self.results.names:
            candidate = self._candidate(tuple(self.results.of(name)), swept)
            facts = (candidate.algorithm, yaml.safe_dump([candidate.settings, candidate.shared]))
            if facts not in seen:  # the grid may sweep keys of other algorithms
                rivals.setdefault(candidate.algorithm, []).append(candidate)
            seen.add(facts)
        return rivals

    def _candidate(self, runs: tuple[RunRecord, ...], swept: bool) -> Candidate:
        run, column = runs[0], self.results.column(self.aim.column)
        algorithm = run.label if swept else str(run.info.get("algorithm", run.label))
        setting = self._setting(run) if swept else run.label
        histories = {run.seed: history(run) for run in runs}
        value = _mean([self.aim.value(frame) for frame in histories.values()])
        scores = {seed: self.aim.score(frame, column) for seed, frame in histories.items()}
        return Candidate(algorithm, setting, runs, value, scores, self._tests(runs))

    def _tests(self, runs: Sequence[RunRecord]) -> dict[str, float]:
        """Return the means over seeds on test rows, where these had no part in the choice."""
        if not self.aim.held_out or runs[0].info.get("scored") == "training":
            return {}
        own = ("personal_accuracy",) if self.aim.column.startswith("personal_") else ()
        columns = [Aim(name, self.aim.at) for name in ("test_loss", "accuracy", *own)]
        found = {aim.column: _mean([aim.value(history(run)) for run in runs]) for aim in columns}
        return {name: value for name, value in found.items() if not math.isnan(value)}

    def _winner(self, candidates: Sequence[Candidate]) -> Winner:
        best = min(candidates, key=lambda candidate: candidate.place(self.aim))
        found = None
        if len(best.runs) > 1 and math.isfinite(best.score):
            rivals = [c for c in candidates if c is best or not (c.failed or c.pruned)]
            scores = {candidate.setting: candidate.scores for candidate in rivals}
            found = verdict(scores, best=best.setting, resolution=self._resolution(rivals))
        failed = sum(candidate.failed for candidate in candidates)
        return Winner(best, len(candidates), failed, self._edges(best), found)

    def _resolution(self, candidates: Sequence[Candidate]) -> float:
        """Return the most rounds between the target and the evaluated row before; 0 without one."""
        if self.aim.target is None:
            return 0.0
        column, frames = self.results.column(self.aim.column), self._histories(candidates)
        within = [costs_of(f, column, self.aim.target)["rounds_to_target_within"] for f in frames]
        return float(np.nan_to_num(within).max(initial=0.0))

    def _histories(self, candidates: Sequence[Candidate]) -> Iterator[History]:
        return (history(run) for candidate in candidates for run in candidate.runs)

    def _edges(self, best: Candidate) -> tuple[str, ...]:
        edges = []
        space = searched(self.results.scenario)
        for key, value in self._swept(best.runs[0]).items():
            if key in space:
                edges += [key] if space[key].at_edge(value) else []
                continue
            given = [other[key] for other in self._settings.values() if key in other]
            values = {one for one in given if _is_number(one)}
            ends = (min(values), max(values)) if len(values) >= _FEWEST else ()
            edges += [key] if value in ends else []
        return tuple(edges)

    def _setting(self, run: RunRecord) -> str:
        """Return the part of a run's setting in a grid that concerns its algorithm.

        Cases are given by their names.
        """
        if has_cases(self.results.scenario):
            return run.setting
        swept = self._swept(run)
        return setting_name(swept) if swept else ""

    def _swept(self, run: RunRecord) -> dict[str, Any]:
        """Return the keys of the grid or the search with their values in a run.

        Those of other algorithms are left out.
        """
        trial = run.info.get("trial")
        if trial:
            return dict(trial["values"])
        known = labels(self.results.scenario, run.info)
        others = {str(k) for k, label in enumerate(known) if label != run.label}
        setting = self._settings.get(run.setting, {})
        return {
            key: value
            for key, value in setting.items()
            if not (key.startswith("algorithms.") and key.split(".")[1] in others)
        }

    @cached_property
    def _settings(self) -> dict[str, dict[str, Any]]:
        """The values of each setting of the grid, by its name; keys have places of algorithms."""
        return {
            name: {key_by_place(self.results.scenario, key): v for key, v in values.items()}
            for name, values in tried(self.results.scenario).items()
        }

    @property
    def notes(self) -> list[str]:
        """Lines on the criterion, and on the differences that are undecided."""
        found = [winner for winner in self.winners if not winner.best.failed and winner.tried > 1]
        lines = [self._ranked]
        for winner in (winner for winner in found if winner.undecided):
            text = f"undecided against {many(winner.undecided, 'other setting')}"
            lines.append(f"{winner.best.algorithm}: {text}")
        if any(len(winner.best.runs) == 1 for winner in found):
            lines.append("with one seed all differences are undecided; give more seeds")
        return lines

    @property
    def _ranked(self) -> str:
        text = f"ranked by {self.aim.text}"
        if self.aim.held_out:
            tested = any(winner.best.tests for winner in self.winners)
            also = "; test values are those of the winners" if tested else ""
            return f"{text}, on rows held out for this{also}"
        if "validation_loss" in _recorded(self.results):
            return f"{text}, although rows are held out to choose by (validation_loss)"
        return f"{text}; no rows are held out to choose by, which problem.validation: 0.1 would do"

    def frame(self) -> pd.DataFrame:
        """Return a row for each algorithm: its best setting and the values that it reaches.

        ``undecided`` counts the other settings that the best one is not better than, by paired
        differences over seeds (`verdicts`); it is NaN where there is one seed.
        """
        rows = []
        for winner in self.winners:
            best = winner.best
            row = {"algorithm": best.algorithm, "setting": best.setting, "seeds": len(best.runs)}
            row[self.aim.column] = best.value
            if self.aim.target is not None:
                row["rounds_to_target"] = best.score if math.isfinite(best.score) else math.nan
            row |= best.tests
            row["undecided"] = math.nan if len(best.runs) == 1 else winner.undecided
            row |= {"tried": winner.tried, "failed": winner.failed, "edges": " ".join(winner.edges)}
            rows.append(row)
        return pd.DataFrame(rows)

    def write(self, note: str = "", shorten: Shorten = dict) -> list[Path]:
        """Write ``best.csv``, and the best settings as a scenario: ``best.yaml``.

        Where winners differ in more than their algorithm's own settings, no scenario holds them
        all: each then gets one of its own, ``best-<name>.yaml``.

        Parameters
        ----------
        note : str
            A comment at the top of the scenarios.
        shorten : callable
            Returns a scenario without the keys that are as by default.

        Returns
        -------
        list of Path
            The scenarios; none where every setting failed.
        """
        folder = self.results.folder
        replace(folder / "best.csv", self.frame().to_csv(index=False))
        for old in folder.glob("best*.yaml"):
            old.unlink()
        winners = [winner.best for winner in self.winners if not winner.best.failed]
        shared = {yaml.safe_dump(best.shared) for best in winners}
        groups = [winners] if len(shared) == 1 else [[best] for best in winners]
        paths = []
        for group in groups:
            name = group[0].runs[0].folder.name.rpartition("-seed")[0]
            suffix = f"-{name}" if len(groups) > 1 else ""
            paths.append(folder / f"best{suffix}.yaml")
            replace(paths[-1], (f"# {note}\n" if note else "") + self._scenario(group, shorten))
        return paths

    def _scenario(self, group: Sequence[Candidate], shorten: Shorten) -> str:
        """Return the settings of some candidates as one scenario, with new seeds."""
        algorithms = [best.settings for best in group]
        scenario = {"name": f"{self.results.study}-best", **group[0].shared}
        seeds = sorted({run.seed for run in self.results.runs_found})
        count = max(_SEEDS, len(seeds))
        fresh = {"seeds": [*range(seeds[-1] + 1, seeds[-1] + 1 + count)]}
        made = shorten(renewed(scenario | fresh | {"algorithms": algorithms}))
        head = f"# The best settings of {self.results.study}: {self.aim.text}.\n"
        head += (
            f"# They were chosen with seeds {listed(map(str, seeds), 60)}; these seeds are new.\n"
        )
        return head + yaml_text(made, allow_unicode=True, default_flow_style=None, width=100)


@dataclass(frozen=True)
class Searched:
    """The trials of a search so far.

    Parameters
    ----------
    results : Results
        The result folder.
    best : Best
        The best trials by the criterion of the search.
    """

    results: Results
    best: Best

    @classmethod
    def of(cls, results: Results) -> Searched | None:
        """Return the search of a folder; None if it has none, or no trial has a value yet."""
        scores = {"loss", "validation_loss"} & results.recorded
        if not scores or not any("trial" in run.info for run in results.runs_found):
            return None
        return cls(results, Best(results, Aim.of(results, None, None, None)))

    @property
    def labels(self) -> tuple[str, ...]:
        """The algorithms, in the order of the scenario."""
        return tuple(self.best.rivals)

    @cached_property
    def winners(self) -> Results:
        """The runs of the best trial of each algorithm, named by its label."""
        runs = [
            run.renamed(winner.best.algorithm)
            for winner in self.best.winners
            for run in winner.best.runs
        ]
        return Results(self.results.folder, tuple(runs), self.results.scenario)

    def chosen(self, label: str) -> Candidate:
        """Return the best trial of an algorithm."""
        return next(w.best for w in self.best.winners if w.best.algorithm == label)

    def others(self, label: str) -> list[Candidate]:
        """Return the other trials of an algorithm."""
        return [c for c in self.best.rivals[label] if c is not self.chosen(label)]

    def values(self, candidate: Candidate) -> dict[str, Any]:
        """Return the values of a trial by dotted key."""
        return dict(candidate.runs[0].info["trial"]["values"])

    def space(self, label: str) -> dict[str, Distribution]:
        """Return the distributions of the searched keys of an algorithm, by dotted key."""
        every = searched(self.results.scenario)
        return {key: every[key] for key in self.values(self.chosen(label)) if key in every}

    def score(self, candidate: Candidate) -> float:
        """Return the value of a trial, the mean over seeds; the worst infinity if it failed."""
        bad = self.best.aim.sign * math.inf
        return bad if candidate.failed or math.isnan(candidate.value) else candidate.value

    def importance(self, label: str) -> dict[str, float]:
        """Return the importance of each key for a trial to be in the best quarter, by Optuna.

        It is PED-ANOVA (S. Watanabe, A. Bansal, F. Hutter, IJCAI 2023) of the trials' ranks, so
        that failures are the worst, whatever they are worse by. The shares add up to 1, also where
        chance alone decides. Empty where there are fewer than `FEWEST` trials or two keys, or
        Optuna is not installed.
        """
        trials, space = self.best.rivals[label], self.space(label)
        if len(trials) < FEWEST or len(space) < 2 or find_spec("optuna") is None:
            return {}
        import optuna  # imported late: it takes half a second

        scores = [self.best.aim.sign * self.score(trial) for trial in trials]
        laws = {key: held.law for key, held in space.items()}
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        study = optuna.create_study()
        for trial, rank in zip(trials, pd.Series(scores).rank(), strict=True):
            values = self.values(trial)
            chosen = {key: held.to_law(values[key]) for key, held in space.items()}
            made = optuna.trial.create_trial(params=chosen, distributions=laws, value=rank)
            study.add_trial(made)
        with warnings.catch_warnings(action="ignore"):  # it counts as experimental
            evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=GOOD)
            found = optuna.importance.get_param_importances(study, evaluator=evaluator)
        return {key: float(share) for key, share in found.items()}


def best_of(results: Results) -> Results:
    """Return the runs that are shown: of a search the best trial of each algorithm, else all."""
    found = Searched.of(results)
    return results if found is None else found.winners


def text_of(values: Mapping[str, Any]) -> str:
    """Return the values of a trial in a line."""
    shown = zip(key_names(values), values.values(), strict=True)
    return ", ".join(f"{name} {value}" for name, value in shown) or "as given"


def key_names(keys: Iterable[str]) -> tuple[str, ...]:
    """Return short names of the keys of one algorithm.

    Examples
    --------
    >>> key_names(["algorithms.0.local.lr", "algorithms.0.server.lr"])
    ('local.lr', 'server.lr')
    """
    return short_keys(re.sub(r"^algorithms\.[^.]+\.", "", key) for key in keys)


def _default(results: Results) -> str:
    """Return the column by which settings are ranked if no option names one."""
    wanted, known = objective(results.scenario), _recorded(results)
    found = [name for name in ("validation_loss", "loss_gap") if name in known]
    return wanted or [*found, "loss"][0]


def _recorded(results: Results) -> list[str]:
    """Return the columns of the rounds that have a value."""
    return [str(name) for name, known in results.rounds.notna().any().items() if known]


def _mean(values: Iterable[float]) -> float:
    found = [*values]
    return float(sum(found) / len(found))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
