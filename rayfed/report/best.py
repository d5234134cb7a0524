"""The best setting of every algorithm of a study that tried several, by grid or by search."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from rayfed.core.distribution import Distribution
from rayfed.core.dotted import setting_name
from rayfed.core.errors import ScenarioError, many, unknown
from rayfed.core.older import renewed
from rayfed.report.read.curves import crossing, history
from rayfed.report.read.results import Results, RunRecord
from rayfed.report.read.settings import has_cases, labels, objective, searched, tried
from rayfed.report.verdicts import Verdict, verdict
from rayfed.report.writing import replace

PRUNED = "pruned"
"""The rule that ended a run of a sweep which was behind others."""
GOOD = 0.25
"""Share of the trials that count as good ones."""
FEWEST = 12
"""Trials without which no importance is computed."""
_FREE = ("name", "algorithms", "grid")  # what scenarios of winners may differ in
_FEWEST = 3  # values of a key of which the first and the last are an edge


@dataclass(frozen=True)
class Aim:
    """What is best.

    Parameters
    ----------
    column : str
        Of ``rounds.parquet``: a loss or an accuracy.
    at : int, optional
        Round at which it is read: the last value until then; the last of all if None.
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
        """Return the aim that the options of a command give.

        Raises
        ------
        ScenarioError
            If an option names no column, or one of which neither end is best.
        """
        if target is None:
            return cls(column or _default(results), at)._checked(results, "--by")
        if column is not None or at is not None:
            raise ScenarioError("--target", "stands for itself; leave --by and --at out")
        name, _, number = target.partition("=")
        try:
            value = float(number)
        except ValueError:
            text = f"found '{target}'; give a column and a number, such as loss_gap=1e-6"
            raise ScenarioError("--target", text) from None
        return cls(name.strip(), target=value)._checked(results, "--target")

    def _checked(self, results: Results, option: str) -> Aim:
        rounds = results.rounds
        scores = [c for c in rounds.columns if results.column(c).better is not None]
        recorded = [c for c in scores if rounds[c].notna().any()]
        if self.column not in recorded:
            raise ScenarioError(option, unknown("score", self.column, recorded))
        return changed(self, higher=results.column(self.column).better == "higher")

    @property
    def sign(self) -> float:
        """1 where little is good, -1 where much is."""
        return -1.0 if self.higher else 1.0

    @property
    def held_out(self) -> bool:
        """Whether it is read on rows that are held out to choose by, so that tests stay tests."""
        return "validation" in self.column

    @property
    def text(self) -> str:
        """What is compared, in a few words."""
        if self.target is not None:
            return f"{self.column} = {self.target:g} in the fewest rounds"
        return f"{self.column} {'at the end' if self.at is None else f'at round {self.at}'}"


@dataclass(frozen=True)
class Candidate:
    """One setting of one algorithm, with all its seeds.

    Parameters
    ----------
    algorithm : str
        What it competes for: the label, or without a grid the algorithm's own name.
    setting : str
        What tells it from the others: the setting of the grid, or the label.
    runs : tuple of RunRecord
        One for each seed.
    value : float
        Mean over seeds of what the aim reads, NaN where a seed has none.
    scores : tuple of float
        What it is compared by, one for each seed; little is good. They are the rounds to the
        target, if there is one; infinite where a seed never reached it, or has no value.
    tests : mapping of str to float
        Mean test loss and accuracy over seeds; empty unless the aim is read on other rows.
    """

    algorithm: str
    setting: str
    runs: tuple[RunRecord, ...]
    value: float
    scores: tuple[float, ...]
    tests: Mapping[str, float]

    @property
    def failed(self) -> bool:
        """Whether a seed of it failed, as a run that diverges does: then it cannot win."""
        return any(run.status == "failed" for run in self.runs)

    @property
    def pruned(self) -> bool:
        """Whether a sweep ended a seed of it early: it wins only where nothing else is left."""
        return any(run.info.get("stopped_by") == PRUNED for run in self.runs)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the algorithm."""
        return dict(self.runs[0].info.get("settings") or {})

    @property
    def shared(self) -> dict[str, Any]:
        """The scenario without what belongs to the algorithm."""
        scenario = self.runs[0].info.get("scenario") or {}
        return {key: value for key, value in scenario.items() if key not in _FREE}

    @property
    def by_seed(self) -> dict[int, float]:
        """Its scores by seed."""
        return {run.seed: score for run, score in zip(self.runs, self.scores, strict=True)}

    @property
    def score(self) -> float:
        """The mean of its scores."""
        return _mean(self.scores)

    def place(self, aim: Aim) -> tuple[float, ...]:
        """Return what candidates are sorted by, the best first."""
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
        Candidates, and those of them that failed.
    edges : tuple of str
        Keys of the grid whose first or last number it has: a wider grid may hold a better one.
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
        What it recorded.
    aim : Aim
        What is best.
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
        run, frames = runs[0], [history(run) for run in runs]
        algorithm = run.label if swept else str(run.info.get("algorithm", run.label))
        setting = self._setting(run) if swept else run.label
        values = [_value(frame, self.aim) for frame in frames]
        tests = self._tests(run, frames) if self.aim.held_out else {}
        scores = self._scores(frames, values)
        return Candidate(algorithm, setting, runs, _mean(values), scores, tests)

    def _scores(self, frames: Sequence[pd.DataFrame], values: Sequence[float]) -> tuple[float, ...]:
        if self.aim.target is None:
            return tuple(math.inf if math.isnan(v) else self.aim.sign * v for v in values)
        column = self.results.column(self.aim.column)
        at = [crossing(frame, column, self.aim.target) for frame in frames]
        return tuple(math.inf if row is None else float(row["round"]) for row in at)

    def _tests(self, run: RunRecord, frames: Sequence[pd.DataFrame]) -> dict[str, float]:
        """Return the means over seeds of what was measured on test rows, where there are any."""
        if run.info.get("scored") == "training":
            return {}
        own = ("personal_accuracy",) if self.aim.column.startswith("personal_") else ()
        found = {
            name: _mean([_value(frame, Aim(name, self.aim.at)) for frame in frames])
            for name in ("test_loss", "accuracy", *own)
        }
        return {name: value for name, value in found.items() if not math.isnan(value)}

    def _winner(self, candidates: Sequence[Candidate]) -> Winner:
        best = min(candidates, key=lambda candidate: candidate.place(self.aim))
        failed = sum(candidate.failed for candidate in candidates)
        found = None
        if len(best.runs) > 1:
            rivals = [c for c in candidates if c is best or not (c.failed or c.pruned)]
            values = {c.setting: c.by_seed for c in rivals}
            found = verdict(values, best=best.setting) if math.isfinite(best.score) else None
        return Winner(best, len(candidates), failed, self._edges(best), found)

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
        """Return the setting of a run in a grid, as far as it is about its algorithm.

        Cases go by their names.
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
        """What each setting of the grid sets, by its name."""
        return tried(self.results.scenario)

    @property
    def says(self) -> list[str]:
        """What the settings are ranked by, and which differences are undecided, in lines."""
        found = [winner for winner in self.winners if not winner.best.failed and winner.tried > 1]
        lines = [self._ranked]
        for winner in found:
            if winner.undecided:
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
        known = self.results.rounds
        if "validation_loss" in known and known["validation_loss"].notna().any():
            return f"{text}, although rows are held out to choose by (validation_loss)"
        return f"{text}; no rows are held out to choose by, which problem.validation: 0.1 would do"

    def frame(self) -> pd.DataFrame:
        """Return a row for each algorithm: its best setting and what that reaches.

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

    def write(self, note: str = "") -> list[Path]:
        """Write ``best.csv``, and the best settings as a scenario: ``best.yaml``.

        Where winners differ in more than their algorithm's own settings, no scenario holds them
        all: each then gets one of its own, ``best-<name>.yaml``.

        Parameters
        ----------
        note : str
            A line that readers of the scenarios should know, at their top.

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
            replace(paths[-1], (f"# {note}\n" if note else "") + self._scenario(group))
        return paths

    def _scenario(self, group: Sequence[Candidate]) -> str:
        """Return the settings of some candidates as one scenario."""
        algorithms = [best.settings for best in group]
        scenario = {"name": f"{self.results.study}-best", **group[0].shared}
        made = renewed(scenario | {"algorithms": algorithms})
        text = yaml.safe_dump(made, sort_keys=False, allow_unicode=True)
        return f"# The best settings of {self.results.study}: {self.aim.text}.\n{text}"


@dataclass(frozen=True)
class Searched:
    """The trials of a search that ran so far.

    Parameters
    ----------
    results : Results
        The result folder.
    best : Best
        Which trials are best, by what the search made best.
    """

    results: Results
    best: Best

    @classmethod
    def of(cls, results: Results) -> Searched | None:
        """Return what a folder says of a search; None if it is none, or nothing is known yet."""
        scores = {"loss", "validation_loss"} & set(results.rounds)
        if not scores or not any("trial" in run.info for run in results.runs_found):
            return None
        return cls(results, Best(results, Aim.of(results, None, None, None)))

    @property
    def labels(self) -> tuple[str, ...]:
        """The algorithms, in the order of the scenario."""
        return tuple(self.best.rivals)

    @cached_property
    def winners(self) -> Results:
        """The runs of the best trial of each algorithm, which then goes by its label."""
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
        """Return what a trial chose, by dotted key."""
        return dict(candidate.runs[0].info["trial"]["values"])

    def space(self, label: str) -> dict[str, Distribution]:
        """Return what was searched for an algorithm, by dotted key."""
        every = searched(self.results.scenario)
        return {key: every[key] for key in self.values(self.chosen(label)) if key in every}

    def score(self, candidate: Candidate) -> float:
        """Return what a trial reached, the mean over seeds; infinitely bad if it failed."""
        bad = self.best.aim.sign * math.inf
        return bad if candidate.failed or math.isnan(candidate.value) else candidate.value

    def importance(self, label: str) -> dict[str, float]:
        """Return how much each key decides whether a trial is in the best quarter, by Optuna.

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
            told = optuna.trial.create_trial(params=chosen, distributions=laws, value=rank)
            study.add_trial(told)
        with warnings.catch_warnings(action="ignore"):  # it counts as experimental
            evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=GOOD)
            found = optuna.importance.get_param_importances(study, evaluator=evaluator)
        return {key: float(share) for key, share in found.items()}


def best_of(results: Results) -> Results:
    """Return what is shown of a folder: of a search the best trial of each algorithm, else all."""
    found = Searched.of(results)
    return results if found is None else found.winners


def text_of(values: Mapping[str, Any]) -> str:
    """Return the values of a trial in a line."""
    shown = (f"{key.rpartition('.')[2]} {value}" for key, value in values.items())
    return ", ".join(shown) or "as given"


def _default(results: Results) -> str:
    """Return what settings are ranked by if nothing else is said."""
    wanted = objective(results.scenario)
    if wanted is not None:
        return wanted
    known = results.rounds
    for column in ("validation_loss", "loss_gap"):
        if column in known and known[column].notna().any():
            return column
    return "loss"


def _value(frame: pd.DataFrame, aim: Aim) -> float:
    """Return the last value that is known, until the round of the aim."""
    if aim.column not in frame:
        return math.nan
    known = frame[frame[aim.column].notna()]
    known = known if aim.at is None else known[known["round"] <= aim.at]
    return float(known[aim.column].iloc[-1]) if len(known) else math.nan


def _mean(values: Sequence[float]) -> float:
    return float(sum(values) / len(values))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
