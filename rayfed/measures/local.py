"""Gradients and local models of clients, the client function of measures that compare them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from rayfed.clients import Clients
from rayfed.core.arrays import Array, Floats, Ints, to_numpy
from rayfed.measures.base import MeasureView
from rayfed.messages import Ask, State, Upload
from rayfed.solvers import Descent, Local
from rayfed.solvers.sgd import SGD


@dataclass(frozen=True)
class TracedClients(Clients):
    """Clients that keep the results of their local solvers.

    Attributes
    ----------
    shared, personal : list of (K, p) array
        The local models of solvers that started from one model for all clients, and of others.
    """

    shared: list[Array] = field(default_factory=list)
    personal: list[Array] = field(default_factory=list)

    def solve(self, x: Array, **terms: Any) -> Local:
        """Run the local solver from x, (p,) or (K, p), and keep the local models."""
        local = super().solve(x, **terms)
        (self.shared if x.ndim == 1 else self.personal).append(local.x)
        return local


@dataclass(frozen=True)
class LocalWork:
    """Gradients and local models of clients. Nothing that a client keeps is changed.

    Parameters
    ----------
    algorithm : rayfed.algorithms.base.Algorithm
        The algorithm of the local steps.
    """

    algorithm: Any

    def slopes(self, clients: Clients, x: Array) -> Upload:
        """Return grad F_i (K, p), in double precision as all vectors here."""
        return Upload({"slope": to_numpy(clients.gradient(x)).astype(np.float64)})

    def off(self, clients: Clients, x: Array, mean: Floats, group: Floats) -> Upload:
        """Return the squared distances (K,) of grad F_i from two means (p,)."""
        slopes = to_numpy(clients.gradient(x))
        off, off_group = slopes - to_numpy(mean), slopes - to_numpy(group)
        return Upload({"off": squares(off), "off_group": squares(off_group)})

    def trained(self, clients: Clients, client_half: Array, **send: Array) -> Upload:
        """Return the models (K, p) after the local steps of a client function of the algorithm."""
        return Upload({"model": self._local_models(clients, client_half, send)})

    def apart(
        self, clients: Clients, client_half: Array, mean_model: Floats, **send: Array
    ) -> Upload:
        """Return the distances (K,) of these models from their mean (p,)."""
        models = self._local_models(clients, client_half, send)
        return Upload({"apart": np.sqrt(squares(models - to_numpy(mean_model)))})

    def moved(
        self, clients: Clients, client_half: Array, start: Floats, ends: Ints, **send: Array
    ) -> Upload:
        """Return the displacement of local models from a model (p,), and its norm by layer.

        The second are the squared norms (K, L) of the layers, which end before `ends` (L,).
        """
        moved = self._local_models(clients, client_half, send) - to_numpy(start)
        parts = np.split(moved, ends, axis=1)[:-1]
        return Upload({"moved": moved, "squares": np.stack([squares(p) for p in parts], axis=1)})

    def ends(self, clients: Clients, client_half: Array, **send: Array) -> Upload:
        """Return the first two numbers (K,) of each local model."""
        models = self._local_models(clients, client_half, send)
        return Upload({"first": models[:, 0], "second": models[:, 1]})

    def values(self, clients: Clients, points: Array) -> Upload:
        """Return F_i (K, G) at points (G, p)."""
        values = [to_numpy(clients.value(point)).astype(np.float64) for point in points]
        return Upload({"value": np.stack(values, axis=1)})

    def descended(self, clients: Clients, x: Array) -> Upload:
        """Return (x - x_i) / (lr tau_i) (K, p) after plain gradient descent, NaN without an lr."""
        if not isinstance(clients.solver, Descent):
            return Upload({"direction": np.full((len(clients.ids), clients.p), np.nan)})
        lr = clients.solver.rate(clients.round)
        local = replace(clients, solver=SGD(batch="full", lr=lr)).solve(x)
        moved = to_numpy(x).astype(np.float64) - to_numpy(local.x)
        return Upload({"direction": moved / (lr * clients.steps)[:, None]})

    def _local_models(self, clients: Clients, client_half: Array, send: State) -> Floats:
        """Return where the local solver of a client function ends (K, p), NaN if none runs.

        Of several it is the one that starts from the global model: personal models are no drift.
        NaN too where the solver moves a part of the coordinates.
        """
        traced = TracedClients(**{f.name: getattr(clients, f.name) for f in fields(clients)})
        getattr(self.algorithm, str(client_half))(traced, **send)
        models = [*traced.shared, *traced.personal]
        if not models or models[0].shape[1] < clients.p:
            return np.full((len(clients.ids), clients.p), np.nan)
        return to_numpy(models[0]).astype(np.float64)


def next_tasks(view: MeasureView) -> dict[str, Array] | None:
    """Return the download for the local tasks of the coming round with `LocalWork`.

    None where one machine has all rows, or a client function does no local steps.
    """
    rounds = view.algorithm.round(view.server)
    ask = next((asked for asked in rounds if isinstance(asked, Ask)), None)  # after any wait
    rounds.close()
    if ask is None or not ask.local or view.algorithm.centralised:
        return None
    send = ask.send
    if ask.edge_of is not None:  # edge servers begin a round with one model
        send = {name: values[0] for name, values in send.items()}
    return {"client_half": np.array(ask.function), **send}


def squares(rows: Floats) -> Floats:
    """Return the squared norms of rows (..., p)."""
    return np.asarray(np.vecdot(rows, rows))
