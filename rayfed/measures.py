"""Measures of a model in the middle of a run: what the columns of an evaluated row say."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from rayfed.algorithms.base import Array
from rayfed.evaluation import scores, summarise
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
SKEW = ("skew",)


def evaluated(personal: bool, fairness: bool, skew: bool) -> tuple[str, ...]:
    """Return the columns of evaluated rows: those of every run, and those that were asked for."""
    own = PERSONAL if personal else ()
    return (*SCORES, *own, *(FAIRNESS if fairness else ()), *(SKEW if skew else ()))


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

    def of(self, x: Array, when: str) -> dict[str, float]:
        """Return the loss F, test loss, accuracy, gap and what else is asked of a model (p,)."""
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
            row["loss_gap"] = row["loss"] - run.optimum
        return row | self._spread(x, when)

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
        """Return loss and accuracy of clients (K,) each, of their own models if they have any."""
        return self._ask("evaluation", "each", 1, ids, x, when, ("loss", "accuracy")).each

    def skew(self, x: Array, ids: Ints, when: str) -> dict[str, float]:
        """Return the selection skew of a cohort (K,) at the model (p,) that it starts from.

        Cho, Wang, Joshi, "Towards Understanding Biased Client Selection in Federated Learning",
        AISTATS 2022: rho = mean_k (F_k(x) - F_k*) / (F(x) - sum_k p_k F_k*), k over the cohort, 1
        on average where the selection is unbiased. F_k* is taken as 0, which no loss is below.
        """
        if self.run.algorithm.pooled:  # one machine stands for everybody
            return {"skew": math.nan}
        everyone = self.of(x, when)["loss"]
        distinct, place = np.unique(ids, return_inverse=True)
        chosen = self.each(x, distinct, when)["loss"][place]
        return {"skew": float(np.mean(chosen)) / everyone if everyone else math.nan}

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
        none = np.zeros(len(ids), dtype=np.int64)
        up = dict.fromkeys(names, numbers)
        request = Request(owner, work, up, ids, np.ones(len(ids)), none, none, 0, 0)
        return self.exchange(request, {"x": x}, when)


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
