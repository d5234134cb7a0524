"""The optimum of a convex study: F* and where it is, and the least value of every F_i."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from rayfed.clients import Clients
from rayfed.clients.host import Request
from rayfed.core.arrays import Array, Floats
from rayfed.core.errors import ScenarioError
from rayfed.engine.run import Optimum, Run
from rayfed.executors.serial import SerialExecutor
from rayfed.messages import Upload

_NEWTON_UP_TO = 1000  # parameters; a Hessian of so many rows still solves in about a second
_NEWTON_EACH_UP_TO = 100  # the same for every client; only least values are wanted there


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

    def least(self, clients: Clients, x: Array) -> Upload:
        """Return the least value F_i* of every client (K,), searched from x (p,)."""
        newton = clients.problem.has_hessian and clients.p <= _NEWTON_EACH_UP_TO
        from rayfed.numerics.minimise import minimise  # here: SciPy's take half a second

        least = [
            minimise(
                partial(_value_and_gradient, client),
                partial(_hessian, client) if newton else None,
                x,
            )[0]
            for client in (clients.only(k) for k in range(len(clients.ids)))
        ]
        return Upload({"least": np.array(least)})


def optimum(
    run: Run, tables: Mapping[str, Any], place: str | None, *, of_clients: bool
) -> Optimum | None:
    """Return the optimum of a run's objective, by L-BFGS from its first model and Newton steps.

    Both leave the directions alone along which F does not change. So where minimisers are many, as
    with least squares of fewer rows than columns, it is the one nearest to the first model that is
    found, which is also the one that gradient methods approach. Where classes can be separated and
    nothing is regularised, F has no minimiser, and x is only where the search ended.

    Parameters
    ----------
    tables : mapping of str to Rows
        The tables that the run's shards travel without.
    place : str or None
        The key that cannot do without it; if None, an unknown optimum is no error.
    of_clients : bool
        Whether the least value of every F_i is wanted too.

    Returns
    -------
    Optimum or None
        None where it is not known and nothing needs it.

    Raises
    ------
    ScenarioError
        If the problem is not convex, or not all clients are evaluated.
    """
    name, known = run.problem.name, run.problem.convex and len(run.evaluated) == run.clients.count
    if not known:
        if place is None:
            return None
        why = f"the optimum of '{name}' is unknown; leave it out"
        raise ScenarioError(place, "needs `evaluate.clients: all`" if run.problem.convex else why)
    everyone = {name: view for name, view in run.views.items() if name != "server"}
    views = {**everyone, "": run.views["evaluation"]}
    data = dict.fromkeys(views, run.data["evaluation"])
    whole = replace(run, views=views, data=data, x0=run.x0.astype(np.float64))
    executor = SerialExecutor(tables, whole.data)
    setup = replace(whole.setup(), owners={"optimum": Whole()}, initial={})
    executor.open("optimum", setup)
    function = _Function(executor, run)
    from rayfed.numerics.minimise import minimise

    value, x = minimise(function.value_and_gradient, function.newton, whole.x0)
    return Optimum(value, x, function.least(whole.x0) if of_clients else None)


class _Function:
    """F, its gradient and its Hessian, summed over all clients."""

    def __init__(self, executor: SerialExecutor, run: Run) -> None:
        objective = run.views["evaluation"].objective
        mass = run.views["evaluation"].shards.mass(run.evaluated)
        weights = float(objective.weights(mass).sum())
        self.normaliser = objective.normaliser(weights, len(run.evaluated))
        self.executor, self.ids, self.p = executor, run.evaluated, run.x0.size
        self.dtype = run.dtype
        newton = run.problem.has_hessian and self.p <= _NEWTON_UP_TO
        self.newton = self.hessian if newton else None

    def value_and_gradient(self, x: Floats) -> tuple[float, Floats]:
        """Return F(x) and its gradient (p,)."""
        terms = self._sum("gradient", x, 1 + self.p)
        return float(terms[0]), terms[1:]

    def hessian(self, x: Floats) -> Floats:
        """Return the Hessian of F at x (p, p)."""
        return self._sum("hessian", x, self.p**2)

    def least(self, x: Floats) -> Floats:
        """Return F_i* (K,) of all clients."""
        request = self._request("least", {"least": 1})
        each = self.executor.exchange("optimum", request, {"x": x.astype(self.dtype)}).each
        return np.asarray(each["least"])

    def _sum(self, work: str, x: Floats, up: int) -> Floats:
        request = self._request(work, {"terms": up})
        sums = self.executor.exchange("optimum", request, {"x": x.astype(self.dtype)}).sums
        return np.asarray(sums["terms"].astype(np.float64) / self.normaliser)

    def _request(self, work: str, up: Mapping[str, int]) -> Request:
        none = np.zeros(len(self.ids), dtype=np.int64)
        return Request("optimum", work, up, self.ids, np.ones(len(self.ids)), none, none, 0, 0)


def _value_and_gradient(client: Clients, x: Floats) -> tuple[float, Floats]:
    """Return F_i and its gradient (p,) of one client."""
    at = x.astype(client.shards.dtype)
    return float(client.value(at)[0]), client.gradient(at)[0].astype(np.float64)


def _hessian(client: Clients, x: Floats) -> Floats:
    """Return the Hessian of F_i (p, p) of one client."""
    return np.asarray(client.hessian(x.astype(client.shards.dtype))[0], dtype=np.float64)
