"""Measures of a model in the middle of a run: what the columns of an evaluated row say."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

from rayfed.algorithms.base import Algorithm, Array, Probe
from rayfed.availability import Availability, Cyclic
from rayfed.diagnosis import BY_GROUP, HETEROGENEITY, Coming, Diagnosis
from rayfed.evaluation import each_of, scores, summarise
from rayfed.executors.base import Gathered
from rayfed.host import Request
from rayfed.runs import Run
from rayfed.tree import Ints

Floats = npt.NDArray[np.float64]

SCORES = ("loss", "test_loss", "accuracy", "loss_gap")
PERSONAL = (
    "personal_loss", "personal_accuracy",
    "personal_accuracy_spread", "personal_accuracy_worst_decile",
)  # fmt: skip
FAIRNESS = ("accuracy_spread", "accuracy_worst_decile", "accuracy_jain")
SKEW = ("skew", "skew_optimum")
DISTANCE = ("distance",)


class Asked(Protocol):
    """What a study asks of evaluated rows; see `rayfed.study.parts.Evaluate`."""

    @property
    def fairness(self) -> bool:
        """Whether rows say how evenly clients are served."""

    @property
    def skew(self) -> bool:
        """Whether they say how biased the selection is."""

    @property
    def heterogeneity(self) -> bool:
        """Whether they say how far clients differ."""

    @property
    def distance(self) -> bool:
        """Whether they say how far the model is from the optimum."""


def evaluated(asked: Asked, algorithm: Algorithm, *, availability: Availability) -> tuple[str, ...]:
    """Return the columns of evaluated rows: those of every run, and those that were asked for."""
    wanted = {
        SCORES: True,
        PERSONAL: algorithm.personal,
        FAIRNESS: asked.fairness,
        SKEW: asked.skew,
        DISTANCE: asked.distance,
        HETEROGENEITY: asked.heterogeneity,
        BY_GROUP: asked.heterogeneity and isinstance(availability, Cyclic),
    }
    columns = (name for names, given in wanted.items() if given for name in names)
    return (*columns, *algorithm.examined)


class Measures:
    """Asks the clients of one run about a model. It costs no simulated time.

    Parameters
    ----------
    run : Run
        What is run.
    exchange : callable
        Runs the client halves of a request: ``exchange(request, send, when)``, where `when`
        is told if a client fails.
    """

    def __init__(
        self, run: Run, exchange: Callable[[Request, Mapping[str, Array], str], Gathered]
    ) -> None:
        self.run, self.exchange = run, exchange
        self.diagnosis = Diagnosis(run, exchange)
        self.columns = evaluated(run, run.algorithm, availability=run.clients.availability)
        self.at_optimum: Floats | None = None

    def of(self, x: Array, coming: Coming, when: str) -> dict[str, float]:
        """Return the loss F, test loss, accuracy, gap and what else is asked of a model (p,).

        Parameters
        ----------
        coming : Coming
            The round that comes next.
        """
        run = self.run
        sums = self._ask("evaluation", "measure", 9, run.evaluated, x, when).sums["metrics"]
        objective = run.views["evaluation"].objective
        normaliser = objective.normaliser(float(sums[1]), len(run.evaluated))
        row = summarise(sums, normaliser, run.scored, run.algorithm.personal)
        if run.scored == "server" and run.algorithm.has_global:  # it knows no others
            pieces = np.arange(run.views["server"].shards.clients)
            own = self._ask("server", "on_server", 3, pieces, x, when).sums["metrics"]
            row |= scores(*own.tolist())
        if run.optimum is not None:
            row["loss_gap"] = row["loss"] - run.optimum.value
            if run.distance:
                row["distance"] = float(np.linalg.norm(x - run.optimum.x))
        if run.heterogeneity:
            row |= self.diagnosis.of(x, coming, when)
        if run.algorithm.examined:
            row |= run.algorithm.examine(coming.state, self._probe(when))
        return row | self._spread(x, when)

    def _probe(self, when: str) -> Probe:
        """Return what lets the algorithm ask the clients about themselves."""
        run, best = self.run, self.run.optimum

        def ask(work: str, send: Mapping[str, Array], up: Mapping[str, int]) -> Mapping[str, Array]:
            return self.exchange(_request("algorithm", work, up, run.evaluated), send, when).sums

        return Probe(ask, None if best is None else best.value, run.clients.count)

    def _spread(self, x: Array, when: str) -> dict[str, float]:
        """Return how evenly clients are served, as far as that is asked for."""
        personal = self.run.algorithm.personal
        if not (personal or self.run.fairness):
            return {}
        names = ("shared", "personal") if personal else ("shared",)
        told = self._ask("evaluation", "spread", 1, self.run.evaluated, x, when, names).each
        row = fairness(told["shared"]) if self.run.fairness else {}
        if personal:
            served = fairness(told["personal"])
            row |= {f"personal_{name}": served[name] for name in FAIRNESS[:2]}
        return row

    def each(self, x: Array, ids: Ints, when: str) -> Mapping[str, Array]:
        """Return loss and accuracy of clients (K,) each, of their own models if they have any.

        With models of their own come their distances from the model that all share.
        """
        return self._ask("evaluation", "each", 1, ids, x, when, each_of(self.run.algorithm)).each

    def skew(self, x: Array, ids: Ints, when: str) -> dict[str, float]:
        """Return the selection skew of a cohort (K,) at the model (p,) that it starts from.

        Cho, Wang, Joshi, "Towards Understanding Biased Client Selection in Federated Learning",
        AISTATS 2022: rho = mean_k (F_k(x) - F_k*) / sum_k p_k (F_k(x) - F_k*), the mean over the
        cohort, the sum over all clients with the weights of F, which add up to 1. It is 1 on
        average where the selection is unbiased. ``skew_optimum`` is rho of the same cohort at x*.

        Where the F_k* are not known, because the problem is not convex or a sample of clients is
        evaluated, 0 stands for them, which no loss is below, and ``skew_optimum`` is NaN.
        """
        run = self.run
        if run.algorithm.pooled:  # one machine stands for everybody
            return {}
        everyone = np.union1d(run.evaluated, ids)
        least = run.optimum.least if run.optimum else None
        above = self._losses(x, everyone, when) - (0.0 if least is None else least)
        row = {"skew": self._rho(above, everyone, ids)}
        if least is not None and run.optimum is not None:
            if self.at_optimum is None:
                best = run.optimum.x.astype(run.dtype)
                self.at_optimum = self._losses(best, everyone, when) - least
            row["skew_optimum"] = self._rho(self.at_optimum, everyone, ids)
        return row

    def _rho(self, above: Floats, everyone: Ints, ids: Ints) -> float:
        """Return a cohort's mean of what is above the least, over that of all who are evaluated."""
        view, evaluated = self.run.views["evaluation"], self.run.evaluated
        weights = view.objective.weights(view.shards.mass(evaluated))
        mean = np.sum(weights * above[np.searchsorted(everyone, evaluated)]) / np.sum(weights)
        return float(np.mean(above[np.searchsorted(everyone, ids)]) / mean) if mean else math.nan

    def _losses(self, x: Array, ids: Ints, when: str) -> Floats:
        """Return F_k(x) (K,) of clients at the model itself."""
        return self._ask("evaluation", "losses", 1, ids, x, when, ("loss",)).each["loss"]

    def _ask(
        self,
        owner: str,
        work: str,
        numbers: int,
        ids: Ints,
        x: Array,
        when: str,
        names: tuple[str, ...] = ("metrics",),
    ) -> Gathered:
        request = _request(owner, work, dict.fromkeys(names, numbers), ids)
        return self.exchange(request, {"x": x}, when)


def _request(owner: str, work: str, up: Mapping[str, int], ids: Ints) -> Request:
    none = np.zeros(len(ids), dtype=np.int64)
    return Request(owner, work, up, ids, np.ones(len(ids)), none, none, 0, 0)


def fairness(accuracies: Floats) -> dict[str, float]:
    """Return how evenly clients are served: spread, worst decile and Jain's index.

    Parameters
    ----------
    accuracies : (K,) array of float
        NaN where a client has no rows to score.

    Returns
    -------
    dict
        Standard deviation over clients; mean over the tenth of them with the lowest accuracies,
        rounded up; and (sum a)^2 / (K sum a^2), which is 1 where all are equal and 1/K where one
        has everything (Jain, Chiu, Hawe, "A quantitative measure of fairness", DEC-TR-301, 1984).

    Examples
    --------
    >>> fairness(np.array([1.0, 0.5, np.nan, 0.0]))["accuracy_jain"]  # 1.5^2 / (3 * 1.25)
    0.6
    """
    known = np.sort(accuracies[~np.isnan(accuracies)])
    if not len(known):
        return dict.fromkeys(FAIRNESS, math.nan)
    squares = len(known) * float(np.sum(known * known))
    jain = float(np.sum(known)) ** 2 / squares if squares else 1.0
    worst = float(np.mean(known[: math.ceil(len(known) / 10)]))
    return dict(zip(FAIRNESS, (float(np.std(known)), worst, jain), strict=True))
