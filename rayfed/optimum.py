"""F*, the least value of a convex global objective, by scipy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from rayfed.algorithms.base import Array, Upload
from rayfed.clients import Clients
from rayfed.errors import ScenarioError
from rayfed.executors.serial import SerialExecutor
from rayfed.host import Request
from rayfed.runs import Run

_NEWTON_UP_TO = 1000  # parameters; a Hessian of so many rows still solves in well under a second


@dataclass(frozen=True)
class Whole:
    """The client half of F as a function: weighted values, gradients and Hessians."""

    def gradient(self, clients: Clients, x: Array) -> Upload:
        """Return w_i F_i and w_i grad F_i in one vector (K, 1 + p)."""
        w = clients.objective.weights(clients.mass)[:, None]
        value, slope = clients.value(x)[:, None], clients.gradient(x)
        return Upload({"terms": w * np.concatenate([value, slope], axis=1)})

    def hessian(self, clients: Clients, x: Array) -> Upload:
        """Return w_i times the Hessian of F_i (K, p, p)."""
        w = clients.objective.weights(clients.mass)[:, None, None]
        return Upload({"terms": w * clients.hessian(x)})


def optimum(run: Run, tables: Mapping[str, Any]) -> Run:
    """Return the run with F* filled in: L-BFGS from zero, then Newton steps.

    Raises
    ------
    ScenarioError
        If the problem is not convex, so that nobody knows F*.
    """
    if not run.problem.convex:
        raise ScenarioError(
            "evaluate.gap", f"the optimum of '{run.problem.name}' is unknown; leave the gap out"
        )
    if len(run.evaluated) < run.clients.count:
        raise ScenarioError("evaluate.gap", "needs `evaluate.clients: all`")
    everyone = {name: view for name, view in run.views.items() if name != "server"}
    views = {**everyone, "": run.views["evaluation"]}
    data = dict.fromkeys(views, run.data["evaluation"])
    whole = replace(run, views=views, data=data, x0=run.x0.astype(np.float64))
    executor = SerialExecutor(tables, whole.data)
    setup = replace(whole.setup(), owners={"optimum": Whole()}, initial={})
    executor.open("optimum", setup)
    return replace(run, optimum=_minimise(_Function(executor, run)))


class _Function:
    """F, its gradient and its Hessian, summed over all clients."""

    def __init__(self, executor: SerialExecutor, run: Run) -> None:
        objective = run.views["evaluation"].objective
        mass = run.views["evaluation"].shards.mass(run.evaluated)
        weights = float(objective.weights(mass).sum())
        self.normaliser = objective.normaliser(weights, len(run.evaluated))
        self.executor, self.ids, self.p = executor, run.evaluated, run.x0.size
        self.dtype = run.dtype
        self.has_hessian = run.problem.has_hessian

    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        """Return F(x) and its gradient (p,)."""
        terms = self._ask("gradient", x, 1 + self.p)
        return float(terms[0]), terms[1:]

    def hessian(self, x: Array) -> Array:
        """Return the Hessian of F at x (p, p)."""
        return self._ask("hessian", x, self.p**2)

    def _ask(self, work: str, x: Array, up: int) -> Array:
        none = np.zeros(len(self.ids), dtype=np.int64)
        request = Request(
            "optimum", work, {"terms": up}, self.ids, np.ones(len(self.ids)), none, none, 0, 0
        )
        send = {"x": x.astype(self.dtype)}
        terms = self.executor.exchange("optimum", request, send).sums["terms"]
        return np.asarray(terms.astype(np.float64) / self.normaliser)


def _minimise(function: _Function) -> float:
    """Return the least value found."""
    found = minimize(
        function.value_and_gradient, np.zeros(function.p), jac=True, method="L-BFGS-B",
        options={"maxiter": 5000, "maxfun": 10000, "ftol": 1e-16, "gtol": 1e-12},
    )  # fmt: skip
    best, x = float(found.fun), found.x
    if not function.has_hessian or function.p > _NEWTON_UP_TO:
        return best
    for _ in range(20):
        value, gradient = function.value_and_gradient(x)
        best = min(best, value)
        hessian = function.hessian(x)
        ridge = 1e-14 * max(float(np.trace(hessian)) / function.p, 1e-300)
        factor = cho_factor(hessian + ridge * np.eye(function.p), check_finite=False)
        step = cho_solve(factor, gradient)
        trial = function.value_and_gradient(x - step)[0]
        if not trial < best:
            break
        x, best = x - step, trial
    return best
