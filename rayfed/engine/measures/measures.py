"""Measures of a model during a run: the columns of an evaluated row."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np

from rayfed.algorithms.base import Algorithm
from rayfed.clients.request import Owner, Request, uncharged
from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.columns import names
from rayfed.engine import columns
from rayfed.engine.measures.diagnosis import BY_GROUP, HETEROGENEITY, Diagnosis, NextRound
from rayfed.engine.measures.evaluation import (
    MANY,
    VALIDATED,
    Evaluation,
    ratio,
    scores,
    summarise,
    summarise_validation,
)
from rayfed.engine.measures.layers import LayerDrift
from rayfed.engine.measures.personal import COLUMNS
from rayfed.engine.run import Run
from rayfed.executors.base import Gathered
from rayfed.messages import Probe, State, Upload
from rayfed.population.availability import Availability, Cyclic

SCORES = names(columns.SCORES)
VALIDATION = names(columns.VALIDATION)
PERSONAL_VALIDATION = names(columns.PERSONAL_VALIDATION)
TOP = names(columns.TOP)
PERSONAL = names(columns.PERSONAL)
FAIRNESS = names(columns.FAIRNESS)
SKEW = names(columns.SKEW)
DISTANCE = names(columns.DISTANCE)
APPEAL = names(columns.APPEAL)


class Asked(Protocol):
    """What a study asks of evaluated rows; see `rayfed.study.scenario.parts.Evaluate`."""

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

    @property
    def appeal(self) -> int | None:
        """After how many local steps alone clients compare the model with their own."""

    @property
    def layers(self) -> bool:
        """Whether they say how far each layer drifts apart."""


def evaluated(
    asked: Asked,
    algorithm: Algorithm,
    *,
    availability: Availability,
    classes: int,
    validation: bool,
) -> tuple[str, ...]:
    """Return the columns of evaluated rows: those of every run, and those that were asked for.

    Parameters
    ----------
    classes : int
        Of the data; 0 for regression.
    validation : bool
        Whether clients hold rows out to choose settings by.
    """
    wanted = {
        SCORES: True,
        VALIDATION: validation,
        PERSONAL_VALIDATION: validation and algorithm.personal,
        TOP: classes > MANY,
        PERSONAL: algorithm.personal,
        FAIRNESS: asked.fairness,
        SKEW: asked.skew,
        DISTANCE: asked.distance,
        APPEAL: asked.appeal is not None,
        HETEROGENEITY: asked.heterogeneity,
        BY_GROUP: asked.heterogeneity and isinstance(availability, Cyclic),
    }
    measured = (name for group, given in wanted.items() if given for name in group)
    examiner = algorithm.examiner
    return (*measured, *names(examiner.columns if examiner else ()))


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
        self.columns = evaluated(
            run.measuring,
            run.training.algorithm,
            availability=run.federation.clients.availability,
            classes=run.federation.views.evaluation.shards.classes,
            validation=run.measuring.validation,
        )
        self.layers = LayerDrift(self.diagnosis) if run.measuring.layers else None
        if self.layers is not None:
            self.columns += names(self.layers.columns)
        self.at_optimum: Floats | None = None
        self.alone: Floats | None = None

    def of(
        self, x: Array, coming: NextRound, when: str
    ) -> tuple[dict[str, float], Mapping[str, Array]]:
        """Return the loss F, test loss, accuracy, gap and what else is asked of a model (p,).

        Parameters
        ----------
        coming : NextRound
            The round that comes next.

        Returns
        -------
        dict
            The columns of the row.
        dict of str to (K,) array
            ``round``, ``client`` and `personal.COLUMNS` of every evaluated client, empty where
            they are not kept.
        """
        run = self.run
        top = {"top": 1} if run.top else {}
        up = {"metrics": 9, **top, **dict.fromkeys(run.reported, 1)}
        round = coming.round - 1
        ids = run.measuring.evaluated
        beside = run.training.algorithm.beside(coming.state)
        gathered = self._ask("evaluation", Evaluation.measure, up, ids, x, when, round, beside)
        sums, by_client = gathered.sums["metrics"], gathered.each
        objective = run.federation.views.evaluation.objective
        normaliser = objective.normaliser(float(sums[1]), len(run.measuring.evaluated))
        row = summarise(sums, normaliser, run.measuring.scored, run.training.algorithm.personal)
        if run.top:
            row["top5_accuracy"] = ratio(float(gathered.sums["top"][0]), float(sums[4]))
        row |= self._on_server(x, when)
        if run.measuring.validation:
            row |= self._validation(x, when, round, beside)
        row |= self._to_optimum(x, row["loss"])
        if run.measuring.heterogeneity:
            row |= self.diagnosis.of(x, coming, when)
        if self.layers is not None:
            row |= self.layers.of(x, coming, when)
        if run.measuring.appeal is not None:
            row["appeal"] = self.appeal(x, coming, run.measuring.appeal, when)
        if run.measuring.fairness:
            row |= fairness(by_client["accuracy"])
        if run.training.algorithm.personal:
            served = fairness(by_client["personal_accuracy"])
            row |= {f"personal_{name}": served[name] for name in FAIRNESS[:2]}
        return row, self._kept(by_client, coming.round - 1)

    def _to_optimum(self, x: Array, loss: float) -> dict[str, float]:
        """Return how far a model (p,) and its loss are from the optimum, if that is known."""
        measuring = self.run.measuring
        if measuring.optimum is None:
            return {}
        row = {"loss_gap": loss - measuring.optimum.value} if measuring.exact else {}
        if measuring.distance:
            row["distance"] = float(np.linalg.norm(x - measuring.optimum.x))
        return row

    def _on_server(self, x: Array, when: str) -> dict[str, float]:
        """Return the columns that a model (p,) has from the server's own rows, if there are any."""
        run = self.run
        server = run.federation.views.server
        if server is None or not run.training.algorithm.has_global:  # it knows no others
            return {}
        pieces = np.arange(server.shards.clients)
        up = {"metrics": 3, **({"top": 1} if run.top else {})}
        on_server = self._ask("server", Evaluation.on_server, up, pieces, x, when).sums
        row = scores(*on_server["metrics"].tolist())
        if run.top:
            hits, rows = float(on_server["top"][0]), float(on_server["metrics"][2])
            row["top5_accuracy"] = ratio(hits, rows)
        return row

    def _validation(self, x: Array, when: str, round: int, beside: State) -> dict[str, float]:
        """Return how good a model is on the rows that settings are chosen by."""
        up, ids = {"validation": len(VALIDATED)}, self.run.measuring.evaluated
        half = Evaluation.validate
        sums = self._ask("validation", half, up, ids, x, when, round, beside).sums
        personal = self.run.training.algorithm.personal
        return summarise_validation(sums["validation"], personal)

    def _kept(self, by_client: Mapping[str, Array], round: int) -> Mapping[str, Array]:
        """Return what is kept of every evaluated client after a round."""
        if self.run.thinning is None:
            return {}
        ids = self.run.measuring.evaluated
        none = np.full(len(ids), np.nan)
        columns = {name: by_client.get(name, none) for name in COLUMNS}
        return {"round": np.full(len(ids), round), "client": ids, **columns}

    def examine(
        self, known: State, coming: NextRound, when: str
    ) -> tuple[Mapping[str, float], State]:
        """Return the columns of the run's examiner and its new state, from what it knew before."""
        examiner = self.run.measuring.examiner
        if examiner is None or not examiner.columns:
            return {}, known
        return examiner.examine(known, coming.state, self._probe(coming.round - 1, when))

    def _probe(self, round: int, when: str) -> Probe:
        """Return what lets the examiner ask the clients about themselves, after a round."""
        measuring = self.run.measuring
        best = measuring.optimum

        def ask(work: str, send: Mapping[str, Array], up: Mapping[str, int]) -> Mapping[str, Array]:
            ids = measuring.evaluated
            request = uncharged("examiner", work, up, ids, data_round=round)
            return self.exchange(request, send, when).sums

        count = self.run.federation.clients.count
        return Probe(ask, None if best is None else best.value, count, round)

    def each(
        self, x: Array, ids: Ints, when: str, round: int = 0, state: State | None = None
    ) -> Mapping[str, Array]:
        """Return loss and accuracy of clients (K,) each, of their own models if they have any.

        Rows are those of a round, and what there is beside x is of the server's state after it.
        """
        up = {"loss": 1, "accuracy": 1}
        beside = self.run.training.algorithm.beside(state or {})
        return self._ask("evaluation", Evaluation.each, up, ids, x, when, round, beside).each

    def skew(
        self,
        x: Array,
        ids: Ints,
        when: str,
        shares: Callable[[Floats], Floats | None] = lambda losses: None,
    ) -> dict[str, float]:
        """Return the selection skew of a cohort (K,) at the model (p,) that it starts from.

        Cho, Wang, Joshi, "Towards Understanding Biased Client Selection in Federated Learning",
        AISTATS 2022: rho = mean_k (F_k(x) - F_k*) / sum_k p_k (F_k(x) - F_k*), the mean over the
        cohort, the sum over all clients with the weights of F, which add up to 1. It is 1 on
        average where the selection is unbiased. ``skew_optimum`` is rho of the same cohort at x*.
        ``skew_expected`` and ``skew_optimum_expected`` are expectations over the draw of the
        cohort, with the shares (N,) that `shares` makes of the losses F_k(x) (N,) of all clients.
        The paper's rho tilde is the largest ``skew_optimum_expected`` of a run, its rho bar the
        least ``skew_expected`` (over all models; here over those of the run).

        Where the F_k* are not known, because the problem is not convex or a sample of clients is
        evaluated, 0 stands for them, which no loss is below, and ``skew_optimum`` is NaN.
        """
        run = self.run
        if run.training.algorithm.pooled:  # one machine stands for everybody
            return {}
        everyone = np.union1d(run.measuring.evaluated, ids)
        least = run.measuring.optimum.least if run.measuring.optimum else None
        losses = self._losses(x, everyone, when)
        above = losses - (0.0 if least is None else least)
        row = {"skew": self._rho(above, everyone, ids)}
        complete = len(everyone) == run.federation.clients.count
        expected = shares(losses) if complete else None
        if expected is not None:
            row["skew_expected"] = self._rho(above, everyone, everyone, expected)
        if least is not None and run.measuring.optimum is not None:
            if self.at_optimum is None:
                best = run.measuring.optimum.x.astype(run.training.dtype)
                self.at_optimum = self._losses(best, everyone, when) - least
            row["skew_optimum"] = self._rho(self.at_optimum, everyone, ids)
            if expected is not None:
                at_optimum = self._rho(self.at_optimum, everyone, everyone, expected)
                row["skew_optimum_expected"] = at_optimum
        return row

    def appeal(self, x: Array, coming: NextRound, steps: int, when: str) -> float:
        """Return the share of clients to whom a model (p,) appeals.

        Cho, Jhunjhunwala, Li, Smith, Joshi, "Maximizing Global Model Appeal in Federated Learning",
        TMLR 2024: those with F_k(x) <= rho_k, the loss of a model that client k has trained alone.
        Where there is no global model, it is that of the models which clients use.
        """
        run, ids = self.run, self.run.measuring.evaluated
        if self.alone is None:
            groups = run.federation.population.group_of(ids)
            half = Evaluation.alone.__name__
            request = replace(uncharged("evaluation", half, {"loss": 1}, ids), groups=groups)
            send = {"x": run.training.x0, "steps": np.array(steps)}
            self.alone = self.exchange(request, send, when).each["loss"]
        if run.training.algorithm.has_global:
            losses = self._losses(x, ids, when, coming.round - 1)
        else:
            losses = self.each(x, ids, when, coming.round - 1, coming.state)["loss"]
        return float(np.mean(losses <= self.alone))

    def _rho(self, above: Floats, everyone: Ints, ids: Ints, shares: Floats | None = None) -> float:
        """Return a cohort's mean of what is above the least, over that of all who are evaluated.

        With shares (K,) it is the mean by these.
        """
        view, evaluated = self.run.federation.views.evaluation, self.run.measuring.evaluated
        weights = view.objective.weights(view.shards.mass(evaluated))
        mean = np.sum(weights * above[np.searchsorted(everyone, evaluated)]) / np.sum(weights)
        chosen = np.average(above[np.searchsorted(everyone, ids)], weights=shares)
        return float(chosen / mean) if mean else math.nan

    def _losses(self, x: Array, ids: Ints, when: str, round: int = 0) -> Floats:
        """Return F_k(x) (K,) of clients at the model itself, on the rows of a round."""
        found = self._ask("evaluation", Evaluation.losses, {"loss": 1}, ids, x, when, round)
        return found.each["loss"]

    def _ask(
        self,
        owner: Owner,
        half: Callable[..., Upload],
        up: Mapping[str, int],
        ids: Ints,
        x: Array,
        when: str,
        round: int = 0,
        beside: State | None = None,
    ) -> Gathered:
        """Run a client half, a method of `Evaluation`, at a model (p,), on the rows of a round."""
        request = uncharged(owner, half.__name__, up, ids, data_round=round)
        return self.exchange(request, {"x": x, **(beside or {})}, when)


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
