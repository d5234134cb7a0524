"""What came of a search: all trials, and the best one of each algorithm."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from rayfed.core.arrays import Floats
from rayfed.report.best import Aim, Best, Candidate
from rayfed.report.read.results import Results
from rayfed.report.read.settings import searched
from rayfed.study.scenario.distributions import Distribution

PARTS = 4
"""Equal parts of the trials, in the order of a key's values, that its importance compares."""
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
            replace(run, name=winner.best.algorithm)
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
        """Return how much of the trials' order each key alone explains; see `rank_share`.

        Empty where there are fewer than `FEWEST` trials.
        """
        trials = self.best.rivals[label]
        if len(trials) < FEWEST:
            return {}
        scores = np.array([self.best.aim.sign * self.score(trial) for trial in trials])
        return {
            key: rank_share([self.values(trial)[key] for trial in trials], held, scores)
            for key, held in self.space(label).items()
        }


def rank_share(values: Sequence[Any], held: Distribution, scores: Floats) -> float:
    """Return the share of the variance of ranks that the parts of a key's values explain.

    The trials are ranked by their scores and divided into `PARTS` by the key, or by its values if
    these are a choice or few. It is epsilon squared, the explained variance corrected for what
    chance explains (T. L. Kelley, "An unbiased correlation ratio measure", PNAS 1935): 0 on average
    where the key does not matter, 1 where it alone decides. Other than a correlation it sees that
    the middle of a range is best. What keys do together it does not see.

    Parameters
    ----------
    values : sequence of length n
        The key's value in each trial.
    held : Distribution
        What they are drawn from.
    scores : (n,) array of float64
        Infinite ones are the last.
    """
    ranks = pd.Series(scores).rank().to_numpy()
    places = np.array([held.place(value) for value in values])
    parts = np.unique(places, return_inverse=True)[1]
    if held.kind != "choice" and parts.max() >= PARTS:
        parts = pd.qcut(places, PARTS, labels=False, duplicates="drop")
    n, total = len(ranks), float(np.var(ranks))
    groups = [ranks[parts == part] for part in np.unique(parts)]
    if total == 0 or len(groups) in (1, n):
        return 0.0
    within = sum(len(group) * float(np.var(group)) for group in groups) / n
    return max(0.0, 1 - (within / total) * (n - 1) / (n - len(groups)))


def text_of(values: Mapping[str, Any]) -> str:
    """Return the values of a trial in a line."""
    shown = (f"{key.rpartition('.')[2]} {value}" for key, value in values.items())
    return ", ".join(shown) or "as given"
