"""How far clients differ: in their gradients, in their local models, and at the optimum.

It costs no simulated time, and the server sees sums of vectors and scalars.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from rayfed.clients.request import Request
from rayfed.clients.solvers import Descent
from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.columns import names
from rayfed.engine import columns
from rayfed.engine.budgets import Budgets
from rayfed.engine.measures.heterogeneity import Heterogeneity, squares
from rayfed.engine.replies import Answer, Sizes, reply_of
from rayfed.engine.run import Run
from rayfed.executors.base import Gathered
from rayfed.messages import Reply, State, Upload
from rayfed.population.availability import Cyclic

HETEROGENEITY = names(columns.HETEROGENEITY)
BY_GROUP = names(columns.BY_GROUP)

Exchange: TypeAlias = Callable[[Request, Mapping[str, Array], str], Gathered]


@dataclass(frozen=True)
class NextRound:
    """The round that comes next.

    Parameters
    ----------
    round : int
        Its number, from 1.
    state : mapping of str to array
        The server's state that it starts from.
    lengths : mapping of str to array
        The state of local work whose length changes.
    """

    round: int
    state: State
    lengths: Mapping[str, Array] = field(default_factory=dict)


class Diagnosis:
    """Asks the evaluated clients of one run.

    Means over clients have the weights of F, and add up to 1: p_i is n_i/n, or 1/N where F weighs
    clients equally. Gradients are those of the training rows at the global model.

    Parameters
    ----------
    run : Run
        What is run.
    exchange : callable
        Runs the client halves of a request; see `rayfed.engine.measures.measures.Measures`.
    """

    def __init__(self, run: Run, exchange: Exchange) -> None:
        self.run, self.exchange, self.budgets = run, exchange, Budgets.of(run)
        self.drift: tuple[Any, float] | None = None

    def of(self, x: Array, coming: NextRound, when: str) -> dict[str, float]:
        """Return what is known of a model (p,) and of the round that comes next."""
        if self.run.training.algorithm.pooled:  # one machine has all rows
            return {}
        return {
            **self.dissimilarity(x, when),
            "client_drift": self.client_drift(coming, when),
            "drift_at_optimum": self.drift_at_optimum(coming, when),
            "gamma": self.gamma(),
        }

    def dissimilarity(self, x: Array, when: str) -> dict[str, float]:
        """Return how far the clients' gradients at a model (p,) are from each other.

        ``sum_i p_i ||grad F_i - m||^2`` with their mean ``m = sum_i p_i grad F_i``, which is
        grad F (over N under ``weighting: sum``). Where clients take turns in cyclic groups it is
        split: the same about the mean of a client's own group, and the mean square of what is
        between these means and m, gamma^2 and alpha^2 in Cho, Sharma, Joshi, Xu, Kale, Zhang, "On
        the Convergence of Federated Averaging with Cyclic Client Participation", ICML 2023.
        """
        ids, groups = self.run.measuring.evaluated, self._groups
        parts = [ids] if groups is None else [ids[groups == g] for g in np.unique(groups)]
        slopes = [
            self.ask(Heterogeneity.slopes, part, {"slope": x.size}, {"x": x}, when)
            for part in parts
        ]
        mean = _mean(slopes, "slope")
        distances = []
        for part, slope in zip(parts, slopes, strict=True):
            send = {"x": x, "mean": mean, "group": slope.mean["slope"]}
            distances.append(
                self.ask(Heterogeneity.off, part, {"off": 1, "off_group": 1}, send, when)
            )
        row = {"gradient_dissimilarity": float(_mean(distances, "off"))}
        if groups is not None:
            within = float(_mean(distances, "off_group"))
            apart = [float(squares(slope.mean["slope"] - mean)) for slope in slopes]
            weights = [float(slope.weights.sum()) for slope in slopes]
            between = sum(w * a for w, a in zip(weights, apart, strict=True)) / sum(weights)
            row |= dict(zip(BY_GROUP, (within, between), strict=True))
        return row

    def client_drift(self, coming: NextRound, when: str) -> float:
        """Return ``sum_i p_i ||x_i - m||``, x_i the local models and m their mean.

        They are what the algorithm's own client half makes of the server's state in the coming
        round, corrections, minibatches and all, if everybody who is evaluated took part. NaN where
        a client half does no local steps. Karimireddy, Kale, Mohri, Reddi, Stich, Suresh,
        "SCAFFOLD", ICML 2020, section 2, describe the drift.
        """
        rounds = self.run.training.algorithm.round(coming.state)
        ask = next(rounds, None)
        rounds.close()
        if ask is None or not ask.local:
            return math.nan
        ids, p = self.run.measuring.evaluated, self.run.training.x0.size
        work = self.work(coming, ids)
        send = {"client_half": np.array(ask.work), **ask.send}
        reply = self.ask(Heterogeneity.trained, ids, {"model": p}, send, when, *work)
        mean = reply.mean["model"]
        if np.isnan(mean).any():
            return math.nan
        send |= {"mean_model": mean}
        return float(
            self.ask(Heterogeneity.apart, ids, {"apart": 1}, send, when, *work).mean["apart"]
        )

    def drift_at_optimum(self, coming: NextRound, when: str) -> float:
        """Return ``||sum_i p_i (x* - x_i) / (lr tau_i)||``, NaN where x* is unknown.

        The average drift at optimum of Wang, Das, Joshi, Kale, Xu, Zhang, "On the Unreasonable
        Effectiveness of Federated Averaging with Heterogeneous Data", 2022,
        https://arxiv.org/abs/2206.04723: x_i is where tau_i plain steps along grad F_i lead from
        x*. tau_i and lr are those of the clients in the coming round; all else that their solvers
        do is left out, since the noise of minibatches would hide the drift. 0 with one step.
        """
        run, best = self.run, self.run.measuring.optimum
        if best is None:
            return math.nan
        round, steps = self.work(coming, run.measuring.evaluated)
        rates = [s.rate(round) if isinstance(s, Descent) else None for s in run.training.solvers]
        key = (steps.tobytes(), rates)
        if self.drift is None or self.drift[0] != key:  # it mostly stays the same in all rounds
            x = best.x.astype(run.training.dtype)
            up, ids = {"direction": x.size}, run.measuring.evaluated
            reply = self.ask(Heterogeneity.descended, ids, up, {"x": x}, when, round, steps)
            self.drift = key, float(np.linalg.norm(reply.mean["direction"]))
        return self.drift[1]

    def gamma(self) -> float:
        """Return Gamma = F* - sum_i w_i F_i*, w_i the weights of F; NaN where they are unknown.

        Li, Huang, Yang, Wang, Zhang, "On the Convergence of FedAvg on Non-IID Data", ICLR 2020,
        section 3.1. It is 0 where one model is best for everybody.
        """
        run, best = self.run, self.run.measuring.optimum
        if best is None or best.least is None:
            return math.nan
        weights = self._weights(run.measuring.evaluated)
        objective = run.federation.views.evaluation.objective
        normaliser = objective.normaliser(float(weights.sum()), len(weights))
        return best.value - float(np.sum(weights * best.least)) / normaliser

    @property
    def _groups(self) -> Ints | None:
        """The cyclic group of each evaluated client (K,), None where all clients are in none."""
        run = self.run
        cyclic, clients = run.federation.clients.availability, run.federation.clients
        if run.training.algorithm.pooled or not isinstance(cyclic, Cyclic):
            return None
        return cyclic.group(run.measuring.evaluated, clients.info)

    def work(self, coming: NextRound, ids: Ints) -> tuple[int, Ints]:
        """Return the number of the coming round and the local steps of clients (K,) in it."""
        round, population = coming.round, self.run.federation.population
        pace = population.seconds_per_step(ids, round, 0, self.budgets.rows(ids))
        return round, self.budgets.steps(ids, pace, round, coming.lengths)

    def _weights(self, ids: Ints) -> Floats:
        view = self.run.federation.views.evaluation
        return view.objective.weights(view.shards.mass(ids))

    def ask(
        self,
        half: Callable[..., Upload],
        ids: Ints,
        up: Mapping[str, int],
        send: Mapping[str, Array],
        when: str,
        round: int = 0,
        steps: Ints | None = None,
    ) -> Reply:
        """Run a client half, a method of `Heterogeneity`, and return means by the weights of F."""
        steps = np.zeros(len(ids), dtype=np.int64) if steps is None else steps
        groups = self.run.federation.population.group_of(ids)
        weights = self._weights(ids).astype(np.float64)
        request = Request("heterogeneity", half.__name__, up, ids, weights, steps, groups, round, 0)
        gathered = self.exchange(request, send, when)
        sizes = Sizes(up, self.run.federation.clients.count)
        return reply_of([Answer.to(request, gathered)], sizes, round)


def _mean(replies: list[Reply], name: str) -> Any:
    """Return the mean over the clients of several replies, from the mean of each."""
    if len(replies) == 1:
        return replies[0].mean[name]
    weights = [float(reply.weights.sum()) for reply in replies]
    total = sum(w * reply.mean[name] for w, reply in zip(weights, replies, strict=True))
    return total / sum(weights)
