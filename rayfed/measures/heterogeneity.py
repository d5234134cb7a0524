"""Heterogeneity of clients: in their gradients, in their local models, and at the optimum."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rayfed.core.columns import Column
from rayfed.core.needs import FIXED_ROWS, GRADIENTS, Terms
from rayfed.measures.base import Measure, MeasureView, Use
from rayfed.measures.local import LocalWork, next_tasks, squares
from rayfed.messages import Reply, State
from rayfed.population.availability.base import Availability
from rayfed.population.availability.cyclic import Cyclic
from rayfed.problems.layers import Layer
from rayfed.solvers import Descent

BY_GROUP = (
    Column(
        "within_group_dissimilarity", "gradient dissimilarity within groups",
        about="The part of the gradient dissimilarity within cyclic groups.",
    ),
    Column(
        "between_group_dissimilarity", "gradient dissimilarity between groups",
        about="The part of the gradient dissimilarity between cyclic groups.",
    ),
)  # fmt: skip
"""Further columns where clients take turns in cyclic groups."""


@dataclass(frozen=True, kw_only=True)
class Heterogeneity(Measure):
    """Differences of the clients' gradients, local models and optima.

    Means over clients have the weights of F, and add up to 1: p_i is n_i/n, or 1/N where F weighs
    clients equally. Gradients are those of the training rows at the global model. The server sees
    sums of vectors and scalars. Its state is the drift at the optimum, with what it depends on.
    """

    name: ClassVar[str] = "heterogeneity"
    needs: ClassVar[Terms] = frozenset({GRADIENTS, FIXED_ROWS})
    uses: ClassVar[Set[Use]] = frozenset({"optima"})
    columns: ClassVar[tuple[Column, ...]] = (
        Column(
            "gradient_dissimilarity",
            about="Weighted mean over clients of ||grad F_i - grad F||^2.",
        ),
        Column(
            "client_drift",
            about="Weighted mean distance of local models from their mean, if all clients ran the "
            "local steps of the next round.",
        ),
        Column(
            "drift_at_optimum", "average drift at the optimum",
            about="Norm of the mean step away from x* for each local step of plain gradient "
            "descent.",
        ),
        Column(
            "gamma", "heterogeneity of the clients' optima",
            about="F* minus the weighted mean of the clients' least losses F_i*.",
        ),
        *BY_GROUP,
    )  # fmt: skip

    def columns_of(
        self, availability: Availability, layers: Sequence[Layer] = ()
    ) -> tuple[Column, ...]:
        """Return the columns; those by group only with cyclic availability."""
        cyclic = isinstance(availability, Cyclic)
        return self.columns if cyclic else self.columns[: -len(BY_GROUP)]

    def functions(self, algorithm: Any) -> LocalWork:
        """Return the client functions of the measure."""
        return LocalWork(algorithm)

    def measure(self, view: MeasureView, known: State) -> tuple[Mapping[str, float], State]:
        """Return the heterogeneity at a model and in the coming round."""
        if view.algorithm.centralised:  # one machine has all rows
            return {}, known
        known = drift_at_optimum(view, known)
        row = {
            **dissimilarity(view),
            "client_drift": client_drift(view),
            "drift_at_optimum": float(known.get("drift", math.nan)),
            "gamma": gamma(view),
        }
        return row, known


def dissimilarity(view: MeasureView) -> dict[str, float]:
    """Return the dissimilarity of the clients' gradients at a model (p,).

    ``sum_i p_i ||grad F_i - m||^2`` with their mean ``m = sum_i p_i grad F_i``, which is
    grad F (over N under ``weighting: sum``). Where clients take turns in cyclic groups it is
    split: the same about the mean of a client's own group, and the mean square of what is
    between these means and m, gamma^2 and alpha^2 in Cho, Sharma, Joshi, Xu, Kale, Zhang, "On
    the Convergence of Federated Averaging with Cyclic Client Participation", ICML 2023.
    """
    ids, x, cyclic = view.clients, view.model, view.population.availability
    parts = [ids]
    if isinstance(cyclic, Cyclic):
        groups = cyclic.group(ids, view.population.info)
        parts = [ids[groups == g] for g in np.unique(groups)]
    slopes = [view.mean("slopes", {"x": x}, {"slope": x.size}, part) for part in parts]
    mean = _mean(slopes, "slope")
    distances = []
    for part, slope in zip(parts, slopes, strict=True):
        send = {"x": x, "mean": mean, "group": slope.mean["slope"]}
        distances.append(view.mean("off", send, {"off": 1, "off_group": 1}, part))
    row = {"gradient_dissimilarity": float(_mean(distances, "off"))}
    if isinstance(cyclic, Cyclic):
        within = float(_mean(distances, "off_group"))
        apart = [float(squares(slope.mean["slope"] - mean)) for slope in slopes]
        weights = [float(slope.weights.sum()) for slope in slopes]
        between = sum(w * a for w, a in zip(weights, apart, strict=True)) / sum(weights)
        row |= {BY_GROUP[0].name: within, BY_GROUP[1].name: between}
    return row


def client_drift(view: MeasureView) -> float:
    """Return ``sum_i p_i ||x_i - m||``, x_i the local models and m their mean.

    They are what the algorithm's own client function makes of the server's state in the coming
    round, corrections, minibatches and all, if everybody who is evaluated took part. NaN where
    a client function does no local steps. Karimireddy, Kale, Mohri, Reddi, Stich, Suresh,
    "SCAFFOLD", ICML 2020, section 2, describe the drift.
    """
    send = next_tasks(view)
    if send is None:
        return math.nan
    ids = view.clients
    steps = view.steps(ids)
    reply = view.mean("trained", send, {"model": view.model.size}, ids, steps)
    mean = reply.mean["model"]
    if np.isnan(mean).any():
        return math.nan
    send |= {"mean_model": mean}
    return float(view.mean("apart", send, {"apart": 1}, ids, steps).mean["apart"])


def drift_at_optimum(view: MeasureView, known: State) -> State:
    """Return ``||sum_i p_i (x* - x_i) / (lr tau_i)||``, with the steps and rates that it is of.

    Nothing where x* is unknown. The average drift at optimum of Wang, Das, Joshi, Kale, Xu, Zhang,
    "On the Unreasonable Effectiveness of Federated Averaging with Heterogeneous Data", 2022,
    https://arxiv.org/abs/2206.04723: x_i is where tau_i plain steps along grad F_i lead from
    x*. tau_i and lr are those of the clients in the coming round; all else that their solvers
    do is left out, since the noise of minibatches would hide the drift. 0 with one step.
    """
    if view.optimum is None:
        return known
    coming, steps = view.round + 1, view.steps(view.clients)
    rates = np.array([s.rate(coming) if isinstance(s, Descent) else np.nan for s in view.solvers])
    same = known and np.array_equal(steps, known["steps"])
    if same and np.array_equal(rates, known["rates"], equal_nan=True):  # as in most rounds
        return known
    x = view.optimum.x.astype(view.first.dtype)
    reply = view.mean("descended", {"x": x}, {"direction": x.size}, view.clients, steps)
    drift = np.linalg.norm(reply.mean["direction"])
    return {"drift": np.array(float(drift)), "steps": steps, "rates": rates}


def gamma(view: MeasureView) -> float:
    """Return Gamma = F* - sum_i w_i F_i*, w_i the weights of F; NaN where they are unknown.

    Li, Huang, Yang, Wang, Zhang, "On the Convergence of FedAvg on Non-IID Data", ICLR 2020,
    section 3.1. It is 0 where one model is best for everybody.
    """
    best = view.optimum
    if best is None or best.least is None:
        return math.nan
    weights = view.weights(view.clients)
    normaliser = view.data.objective.normaliser(float(weights.sum()), len(weights))
    return best.value - float(np.sum(weights * best.least)) / normaliser


def _mean(replies: list[Reply], name: str) -> Any:
    """Return the mean over the clients of several replies, from the mean of each."""
    if len(replies) == 1:
        return replies[0].mean[name]
    weights = [float(reply.weights.sum()) for reply in replies]
    total = sum(w * reply.mean[name] for w, reply in zip(weights, replies, strict=True))
    return total / sum(weights)
