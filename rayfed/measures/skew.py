"""Bias of the selection of clients."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from rayfed.core.arrays import Floats, Ints
from rayfed.core.columns import Column
from rayfed.core.needs import FIXED_ROWS, Terms
from rayfed.measures.base import Measure, MeasureView, Use
from rayfed.messages import State


@dataclass(frozen=True, kw_only=True)
class Skew(Measure):
    """Loss of each cohort relative to that of all clients, before it trains.

    Cho, Wang, Joshi, "Towards Understanding Biased Client Selection in Federated Learning",
    AISTATS 2022: rho = mean_k (F_k(x) - F_k*) / sum_k p_k (F_k(x) - F_k*), the mean over the
    cohort, the sum over all clients with the weights of F, which add up to 1. It is 1 on
    average where the selection is unbiased. ``skew_optimum`` is rho of the same cohort at x*.
    ``skew_expected`` and ``skew_optimum_expected`` are expectations over the draw of the cohort.
    The paper's rho tilde is the largest ``skew_optimum_expected`` of a run, its rho bar the
    least ``skew_expected`` (over all models; here over those of the run).

    Where the F_k* are not known, because the problem is not convex or a sample of clients is
    evaluated, 0 stands for them, which no loss is below, and ``skew_optimum`` is NaN. Its state
    are the F_k(x*) - F_k*.

    Parameters
    ----------
    draws : int
        Cohorts drawn anew to estimate the expected skew of a round.
    """

    name: ClassVar[str] = "skew"
    needs: ClassVar[Terms] = frozenset({FIXED_ROWS})
    uses: ClassVar[Set[Use]] = frozenset({"cohort", "optima"})
    columns: ClassVar[tuple[Column, ...]] = (
        Column(
            "skew", "selection skew",
            about="Mean of F_k - F_k* over the round's cohort, divided by that over all clients, "
            "at the model that the round starts from; 1 on average if the selection is unbiased.",
        ),
        Column(
            "skew_optimum", "selection skew at the optimum",
            about="The same cohort's skew at the optimum x*.",
        ),
        Column(
            "skew_expected", "expected selection skew",
            about="Expectation of the skew over cohorts that could have been drawn in the round: "
            "exact if the selection is blind to losses, else the mean of `draws` "
            "cohorts drawn anew; NaN if not all clients are evaluated or the selection asks for "
            "minibatches.",
        ),
        Column(
            "skew_optimum_expected", "expected selection skew at the optimum",
            about="Expectation over the same cohorts of their skew at the optimum x*. The largest "
            "one of a run is rho tilde of Cho et al. (2022), the least `skew_expected` is rho bar.",
        ),
    )  # fmt: skip

    draws: Annotated[int, Ge(1)] = 100

    def measure(self, view: MeasureView, known: State) -> tuple[Mapping[str, float], State]:
        """Return the selection skew of a cohort at the model that it starts from."""
        if view.algorithm.centralised:  # one machine has all rows
            return {}, known
        ids, best = view.cohort, view.optimum
        everyone = np.union1d(view.clients, ids)
        least = None if best is None else best.least
        losses = view.losses(view.model, everyone)
        above = losses - (0.0 if least is None else least)
        row = {"skew": _rho(view, above, everyone, ids)}
        complete = len(everyone) == view.population.count
        expected = view.shares(losses, self.draws) if complete else None
        if expected is not None:
            row["skew_expected"] = _rho(view, above, everyone, everyone, expected)
        if best is None or least is None:
            return row, known
        if "at_optimum" not in known:
            at_optimum = view.losses(best.x.astype(view.first.dtype), everyone) - least
            known = {"at_optimum": at_optimum}
        row["skew_optimum"] = _rho(view, known["at_optimum"], everyone, ids)
        if expected is not None:
            rho = _rho(view, known["at_optimum"], everyone, everyone, expected)
            row["skew_optimum_expected"] = rho
        return row, known


def _rho(
    view: MeasureView, above: Floats, everyone: Ints, ids: Ints, shares: Floats | None = None
) -> float:
    """Return a cohort's mean excess over the minimum, over that of all evaluated clients.

    With shares (K,) it is the mean by these.
    """
    weights = view.weights(view.clients)
    mean = np.sum(weights * above[np.searchsorted(everyone, view.clients)]) / np.sum(weights)
    chosen = np.average(above[np.searchsorted(everyone, ids)], weights=shares)
    return float(chosen / mean) if mean else math.nan
