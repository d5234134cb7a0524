"""The optimum of a convex study: F* and where it is, and the least value of every F_i."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from rayfed.clients import Clients
from rayfed.clients.request import uncharged
from rayfed.clients.setup import DataViews
from rayfed.core.arrays import Array, Floats
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import HESSIANS
from rayfed.engine.run import Run
from rayfed.executors.serial import SerialExecutor
from rayfed.measures import Optimum
from rayfed.messages import Upload
from rayfed.numerics.minimise import minimise
from rayfed.study.plan.shared import Shared, identity

_NEWTON_UP_TO = 1000  # parameters; a Hessian of so many rows still solves in about a second
_NEWTON_EACH_UP_TO = 100  # the same for every client; only least values are wanted there


@dataclass(frozen=True)
class Oracle:
    """The client function of F as a function: weighted values, gradients and Hessians."""

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
        newton = HESSIANS in clients.problem.gives and clients.p <= _NEWTON_EACH_UP_TO
        least = [
            minimise(
                partial(_value_and_gradient, client),
                partial(_hessian, client) if newton else None,
                x,
            )[0]
            for client in (clients.only(k) for k in range(len(clients.ids)))
        ]
        return Upload({"least": np.array(least)})


class Optima:
    """Optima of the objectives of a study, each found once, by L-BFGS and Newton steps.

    Runs share an objective where problem, data, the clients' rows and the first model are equal:
    those of all settings that change nothing but how it is minimised.

    Both leave the directions alone along which F does not change. So where minimisers are many, as
    with least squares of fewer rows than columns, it is the one nearest to the first model that is
    found, which is also the one that gradient methods approach. Where classes can be separated and
    nothing is regularised, F has no minimiser, and x is only where the search ended.

    Parameters
    ----------
    tables : mapping of str to Rows
        The tables that the runs' shards travel without.
    """

    def __init__(self, tables: Mapping[str, Any]) -> None:
        self.tables = tables
        self._known = Shared()

    def of(self, run: Run, place: str | None, *, of_clients: bool) -> Optimum | None:
        """Return the optimum of a run's objective.

        Parameters
        ----------
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
            If not all clients are evaluated.
        """
        problem = run.training.problem
        if not problem.has_optimum or len(run.measuring.evaluated) < run.federation.clients.count:
            if place is None:
                return None
            raise ScenarioError(place, "needs `evaluate.clients: all`")
        key = identity((run.federation.views.evaluation, run.training.x0))
        x0 = run.training.x0.astype(np.float64)
        found = self._known.get(("optimum", key), lambda: _Function(self.tables, run).optimum(x0))
        if not of_clients:
            return found
        least = self._known.get(("least", key), lambda: _Function(self.tables, run).least(x0))
        return replace(found, least=least)


class _Function:
    """F, its gradient and its Hessian, summed over all clients."""

    def __init__(self, tables: Mapping[str, Any], run: Run) -> None:
        clients = run.federation.views.evaluation
        setup = replace(
            run.setup(), owners={"optimum": Oracle()}, views=DataViews(clients, clients), initial={}
        )
        executor = SerialExecutor(tables)
        executor.open("optimum", setup)
        view, ids = run.federation.views.evaluation, run.measuring.evaluated
        weights = float(view.objective.weights(view.shards.mass(ids)).sum())
        self.normaliser = view.objective.normaliser(weights, len(ids))
        self.executor, self.ids, self.p = executor, ids, run.training.x0.size
        self.dtype = run.training.dtype
        newton = HESSIANS in run.training.problem.gives and self.p <= _NEWTON_UP_TO
        self.newton = self.hessian if newton else None

    def optimum(self, x: Floats) -> Optimum:
        """Return F* and where it is, searched from x (p,)."""
        return Optimum(*minimise(self.value_and_gradient, self.newton, x))

    def value_and_gradient(self, x: Floats) -> tuple[float, Floats]:
        """Return F(x) and its gradient (p,)."""
        terms = self._sum(Oracle.gradient, x, 1 + self.p)
        return float(terms[0]), terms[1:]

    def hessian(self, x: Floats) -> Floats:
        """Return the Hessian of F at x (p, p)."""
        return self._sum(Oracle.hessian, x, self.p**2)

    def least(self, x: Floats) -> Floats:
        """Return F_i* (K,) of all clients."""
        request = uncharged("optimum", Oracle.least.__name__, {"least": 1}, self.ids)
        each = self.executor.exchange("optimum", request, {"x": x.astype(self.dtype)}).each
        return np.asarray(each["least"])

    def _sum(self, half: Callable[..., Upload], x: Floats, up: int) -> Floats:
        """Return the summed terms of a client function, divided as F is."""
        request = uncharged("optimum", half.__name__, {"terms": up}, self.ids)
        sums = self.executor.exchange("optimum", request, {"x": x.astype(self.dtype)}).sums
        return np.asarray(sums["terms"].astype(np.float64) / self.normaliser)


def _value_and_gradient(client: Clients, x: Floats) -> tuple[float, Floats]:
    """Return F_i and its gradient (p,) of one client."""
    at = x.astype(client.shards.dtype)
    return float(client.value(at)[0]), client.gradient(at)[0].astype(np.float64)


def _hessian(client: Clients, x: Floats) -> Floats:
    """Return the Hessian of F_i (p, p) of one client."""
    return np.asarray(client.hessian(x.astype(client.shards.dtype))[0], dtype=np.float64)
