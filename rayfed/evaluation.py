"""Evaluation: what the rows of a run say about the model. It costs no simulated time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from rayfed.algorithms.base import Algorithm, Array, Upload
from rayfed.clients import Clients
from rayfed.problems.base import Batch

COLUMNS = (
    "loss", "weight", "test_loss", "correct", "rows", "own_loss", "own", "own_accuracy", "scored",
)  # fmt: skip
"""A client's terms: w_i F_i and w_i; summed loss, right predictions and count of the scored rows;
at its own model F_i and 1, accuracy and 1 where it has scored rows. Each is summed over clients."""

Scored = Literal["held-out", "server", "training"]


@dataclass(frozen=True)
class Evaluation:
    """The client half of an evaluation.

    Parameters
    ----------
    algorithm : Algorithm
        Gives the personal models where it has any.
    scored : "held-out", "server" or "training"
        Which rows accuracy is measured on: those the clients hold out, the server's own, or,
        where nothing is held out, the training rows.
    """

    algorithm: Algorithm
    scored: Scored = "held-out"

    def measure(self, clients: Clients, x: Array) -> Upload:
        """Return the terms (K, 9) of `COLUMNS`."""
        return Upload({"metrics": self._terms(clients, x)})

    def each(self, clients: Clients, x: Array) -> Upload:
        """Return loss F_i and accuracy of every client's own model, if it has one (K,).

        Accuracy is NaN where there are no rows. Where there is a global model too, ``distance`` is
        how far the client's own is from it, in Euclidean norm.
        """
        models = self._own(clients, x)
        _, right, rows = _scores(clients, models, self._scored(clients))
        told = {"loss": _losses(clients, models), "accuracy": _share(right, rows)}
        if "distance" in each_of(self.algorithm):
            apart = models - x
            told["distance"] = np.sqrt(np.vecdot(apart, apart).astype(np.float64))
        return Upload(told)

    def spread(self, clients: Clients, x: Array) -> Upload:
        """Return every client's accuracy on its own rows (K,), NaN where it has none.

        They are its training rows where the server holds the rows that the others are scored on.
        "shared" is of the model that is evaluated, "personal" of the client's own.
        """
        batch = clients.held_out if self.scored == "held-out" else clients.rows_once
        values = {}
        for name, models in (("shared", self._shared), ("personal", self._own)):
            if name == "shared" or self.algorithm.personal:
                _, right, rows = _scores(clients, models(clients, x), batch)
                values[name] = _share(right, rows)
        return Upload(values)

    def losses(self, clients: Clients, x: Array) -> Upload:
        """Return F_i (K,) at the model x (p,) itself, whatever models the clients have."""
        losses = np.broadcast_to(clients.value(x), clients.ids.shape)
        return Upload({"loss": losses.astype(np.float64)})

    def on_server(self, clients: Clients, x: Array) -> Upload:
        """Return the terms (K, 3) of the server's own rows: loss sum, right, count."""
        return Upload({"metrics": np.stack(_scores(clients, x[None], clients.held_out), axis=1)})

    def _own(self, clients: Clients, x: Array) -> Array:
        """Return the clients' own models (K, p), or the shared one (1, p) if they have none."""
        return self.algorithm.models(clients, x) if self.algorithm.personal else x[None]

    def _shared(self, clients: Clients, x: Array) -> Array:
        """Return the model that is evaluated (1, p), or if there is none their own (K, p)."""
        return x[None] if self.algorithm.has_global else self._own(clients, x)

    def _scored(self, clients: Clients) -> Batch | None:
        return {"held-out": clients.held_out, "training": clients.rows_once}.get(self.scored)

    def _terms(self, clients: Clients, x: Array) -> Array:
        batch, models = self._scored(clients), self._shared(clients, x)
        losses, scored = _losses(clients, models), _scores(clients, models, batch)
        own_losses, (_, right, rows) = losses, scored
        if self.algorithm.personal and self.algorithm.has_global:
            own = self._own(clients, x)
            own_losses, (_, right, rows) = _losses(clients, own), _scores(clients, own, batch)
        weights = clients.objective.weights(clients.mass)
        accuracy = np.where(rows > 0, _share(right, rows), 0.0)
        terms = (
            losses * weights, weights, *scored,
            own_losses, np.ones_like(losses), accuracy, rows > 0,
        )  # fmt: skip
        return np.stack(terms, axis=1)


def each_of(algorithm: Algorithm) -> tuple[str, ...]:
    """Return what is told of every client at the end of a run."""
    apart = algorithm.personal and algorithm.has_global
    return ("loss", "accuracy", "distance") if apart else ("loss", "accuracy")


def _losses(clients: Clients, models: Array) -> Array:
    """Return F_i (K,) at models (K, p) or (1, p)."""
    return np.broadcast_to(clients.value(models), clients.ids.shape).astype(np.float64)


def _share(right: Array, rows: Array) -> Array:
    """Return which share of the rows is right (K,), NaN where there are none."""
    return np.divide(right, rows, out=np.full_like(rows, np.nan), where=rows > 0)


def _scores(clients: Clients, x: Array, batch: Batch | None) -> tuple[Array, Array, Array]:
    """Return summed loss, right predictions and row count of each client (K,)."""
    if batch is None:
        none = np.zeros(len(clients.ids))
        return none, none, none
    problem = clients.problem
    rows = np.asarray(np.sum(batch.w, axis=1, dtype=np.float64))
    loss = np.broadcast_to(problem.value(x, batch), rows.shape).astype(np.float64)
    if problem.task == "regression":
        return loss, np.full_like(rows, np.nan), rows
    hits = (problem.predict(x, batch.X) == batch.y) & (batch.w > 0)
    return loss, np.asarray(np.sum(hits, axis=1, dtype=np.float64)), rows


def summarise(sums: Array, normaliser: float, scored: Scored, personal: bool) -> dict[str, float]:
    """Turn the summed terms (9,) into the columns of a row."""
    total = dict(zip(COLUMNS, sums.tolist(), strict=True))
    row = {"loss": total["loss"] / normaliser, **scores(*sums[2:5].tolist())}
    if scored == "training":
        row["test_loss"] = np.nan
    if personal:
        row["personal_loss"] = total["own_loss"] / total["own"]
        row["personal_accuracy"] = ratio(total["own_accuracy"], total["scored"])
    return row


def scores(loss: float, right: float, rows: float) -> dict[str, float]:
    """Return the mean loss and the accuracy of scored rows."""
    return {"test_loss": ratio(loss, rows), "accuracy": ratio(right, rows)}


def ratio(a: float, b: float) -> float:
    """Divide, NaN where there is nothing to divide by."""
    return a / b if b else float("nan")
