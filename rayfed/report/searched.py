"""Outcome of a search: all trials, and the best one of each algorithm."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import pandas as pd

from rayfed.core.distribution import Distribution
from rayfed.report.best import Aim, Best, Candidate
from rayfed.report.read.results import Results
from rayfed.report.read.settings import searched

GOOD = 0.25
"""Share of the trials that count as good ones."""
FEWEST = 12
"""Trials without which no importance is computed."""


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
