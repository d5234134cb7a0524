"""FedDrift: several global models, and clients that change between them when their data drift.

Jothimurugesan, Hsieh, Wang, Joshi, Gibbons, "Federated Learning under Distributed Concept Drift",
AISTATS 2023, https://arxiv.org/abs/2206.00799, Algorithms 1 (FedDrift-Eager) and 2 (FedDrift).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Gt

from rayfed.algorithms.base import Aim, Algorithm, Coded, Round
from rayfed.core.arrays import Array, Floats, Ints, to_numpy
from rayfed.core.columns import Column
from rayfed.core.needs import OWN_MODELS, VECTORS, Terms
from rayfed.messages import Ask, Groups, State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class FedDrift(Algorithm):
    """Clustered FedAvg for data that drift (Jothimurugesan et al. 2023).

    The server keeps models w_1, ..., w_M (p,); at first there is one. In a round a participant i
    finds its least loss l_i = min_m F_i(w_m). If l_i exceeds its l_i of the round in which it took
    part before by more than delta, its data have drifted and it opens a model of its own; otherwise
    it joins the cluster of its best model. With L_mc the mean loss of w_m over the clients of
    cluster c, clusters m and c are max(L_mc - L_cc, L_cm - L_mm, 0) apart. While two are less than
    delta apart, the nearest two are merged: their models are averaged by size, and the new
    cluster's distance from a third is the larger one of theirs. Then each cluster takes a round of
    FedAvg with its own model.

    Parameters
    ----------
    delta : float
        Rise of a client's least loss that counts as drift, and distance of clusters that merge.
    most : int
        Models at most; a client that finds no place for a new one joins that of its best model.
    eager : bool
        FedDrift-Eager: clients that drift in the same round open one model together, and clusters
        never merge.

    Notes
    -----
    There is no global model: every client is scored with the model that has the least loss on its
    training rows, so ``loss`` and ``accuracy`` are those of the models that clients use. ``x`` is
    the model of the cluster that weighed most in the last round.

    The server adds up losses and Delta_i cluster by cluster. A client that opens a model is alone
    with it in that round, so the server sees its Delta_i; with `eager` it does so only if a client
    drifts alone. Who drifted, and which model each participant uses, are scalars that it sees.

    Deviations from the paper: a time step is one round, so clusters are looked at in every round
    and a new model is alone for one; losses are on the rows of the round, and clients keep no rows
    of earlier ones; a new model begins as the first model did, x_0. Only clusters with participants
    are merged; a model that no client uses any more is kept, in case its data recur. All
    models are sent to all participants, before the losses and again before the local steps, since
    the server has one message for all; both are charged.

    Examples
    --------
    Models 0 and 4, and clients whose losses are half squared distances from 0, 4 and 10; the last
    one's least loss was 3 before, so that it opens a model that starts from 0:

    >>> from rayfed.testing.toy import points
    >>> last = {"loss": [9.0, 9.0, 3.0], "least": np.zeros(3), "choice": np.zeros(3, np.int64)}
    >>> upload = FedDrift(delta=1.0).choose(
    ...     points([0.0, 4.0, 10.0], state=last), np.array([[0.0], [4.0]])
    ... )
    >>> upload.values["losses"].tolist(), upload.group.tolist()
    ([[0.0, 8.0], [8.0, 0.0], [50.0, 18.0]], [0, 1, 2])
    """

    name: ClassVar[str] = "feddrift"
    coded: ClassVar[Coded] = {"delta": "any"}
    needs: ClassVar[Terms] = Algorithm.needs | {VECTORS}
    gives: ClassVar[Terms] = frozenset({OWN_MODELS})
    aim: ClassVar[Aim] = "own"
    diagnostics: ClassVar[tuple[Column, ...]] = (
        Column("clusters", "global models", about="Models that the server keeps after the round."),
        Column("used", "models in use", about="Models that participants trained in the round."),
        Column("opened", "models opened", about="Models that were opened in the round."),
        Column("merged", "models merged", about="Models that were merged into others."),
    )

    delta: Annotated[float, Gt(0)] = 0.1
    most: Annotated[int, Ge(1)] = 10
    eager: bool = False

    def init(self, x0: Array) -> State:
        """Return the models (1, p), and x0 (p,), from which new ones start."""
        return {"x": x0, "models": x0[None], "start": x0}

    def client_state(self, x0: Array) -> State:
        """Return a client's least loss (1,) in its round before, that of now, its best model."""
        far = np.full(1, np.inf)
        return {"loss": far, "least": far.copy(), "choice": np.zeros(1, dtype=np.int64)}

    def choose(self, clients: Clients, models: Array) -> Upload:
        """Client function: losses (K, M) at all models, and the best one, or M for a new one."""
        losses = _losses(clients, models)
        least, best = losses.min(axis=1), losses.argmin(axis=1)
        drifted = least > to_numpy(clients.state["loss"])[:, 0] + self.delta
        new_state = {"least": least[:, None], "choice": best[:, None]}
        values = {"losses": losses.astype(clients.shards.dtype)}
        return Upload(values, new_state, group=np.where(drifted, len(models), best))

    def train(
        self, clients: Clients, models: Array, place: Ints, drifted: Ints, opened: Ints
    ) -> Upload:
        """Client function: local steps from the client's model; upload Delta (K, p), its number."""
        index = place[clients.state["choice"][:, 0]]
        new = np.isin(clients.ids, drifted)
        index[new] = opened[np.searchsorted(drifted, clients.ids[new])]
        start = models[index]
        local = clients.solve(start)
        took_part = {"loss": clients.state["least"]}  # a reply that is lost leaves the drift to see
        return Upload({"delta": start - local.x}, took_part, loss=local.loss, group=index)

    def round(self, state: State) -> Round:
        """Server function: merge clusters, open models, and a round of FedAvg in each cluster."""
        models, count = state["models"], len(state["models"])
        up = {"losses": count, "group": 1}
        reply = yield Ask("choose", send={"models": models}, up=up, cost=0, passes=count)
        drifted = reply.ids[reply.each["group"] == count]
        place = np.arange(count)
        if not self.eager:
            models, place = merged(models, reply.groups, self.delta)
        merges = count - len(models)
        room = self.most - len(models)
        if self.eager:
            opened = np.full(len(drifted), len(models))[: len(drifted) if room else 0]
        else:
            opened = len(models) + np.arange(min(len(drifted), room))
        new = len(np.unique(opened))
        models = np.concatenate([models, np.repeat(state["start"][None], new, axis=0)])

        send = {
            "models": models,
            "place": place,
            "drifted": drifted[: len(opened)],
            "opened": opened,
        }
        reply = yield Ask("train", send=send, up={"delta": models.shape[1], "group": 1})
        groups = reply.groups
        models = models.copy()
        models[groups.labels] -= groups.mean["delta"]
        x = models[groups.labels[np.argmax(groups.weights)]]
        used = len(groups.labels)
        counts = {"clusters": len(models), "used": used, "opened": new, "merged": merges}
        return {**state, "x": x, "models": models}, counts

    def evaluation_state(self, state: State) -> State:
        """Return the models (M, p), among which clients find their own."""
        return {"models": state["models"]}

    def models_among(self, clients: Clients, x: Array, **inputs: Array) -> Array:
        """Return the model of each client (K, p) that has the least loss on its rows."""
        models = inputs["models"]
        best: Array = models[_losses(clients, models).argmin(axis=1)]
        return best


def merged(models: Array, groups: Groups, delta: float) -> tuple[Array, Ints]:
    """Merge the models (M, p) of clusters that are less than delta apart.

    Parameters
    ----------
    groups : Groups
        By number of the model: ``mean["losses"]`` (G, M), and the weights of the clusters. Labels
        of M and above are no clusters yet.

    Returns
    -------
    models : (M', p) array
    place : (M,) array of int
        Where each of the models is among these.
    """
    known = groups.labels < len(models)
    remaining, weights = groups.labels[known], groups.weights[known].astype(np.float64)
    apart = distances(groups.mean["losses"][known][:, remaining])
    models, into = models.copy(), np.arange(len(models))
    while len(remaining) > 1:
        a, b = np.unravel_index(np.argmin(apart), apart.shape)
        if apart[a, b] >= delta:
            break
        a, b = min(a, b), max(a, b)
        share = weights[b] / (weights[a] + weights[b])
        models[remaining[a]] += share * (models[remaining[b]] - models[remaining[a]])
        weights[a] += weights[b]
        apart[a] = apart[:, a] = np.maximum(apart[a], apart[b])
        apart[a, a] = np.inf
        into[into == remaining[b]] = remaining[a]
        apart = np.delete(np.delete(apart, b, axis=0), b, axis=1)
        remaining, weights = np.delete(remaining, b), np.delete(weights, b)
    left = np.unique(into)
    return models[left], np.searchsorted(left, into)


def distances(losses: Array) -> Floats:
    """Return the distances between clusters (G, G), infinite on the diagonal.

    Parameters
    ----------
    losses : (G, G) array of float
        Mean loss of the clients of cluster c (a row) at the model of cluster m (a column).
    """
    worse = losses.astype(np.float64) - np.diag(losses)[:, None]
    apart: Floats = np.maximum(np.maximum(worse, worse.T), 0.0)
    np.fill_diagonal(apart, np.inf)
    return apart


def _losses(clients: Clients, models: Array) -> Floats:
    """Return F_i (K, M) of clients at models (M, p)."""
    by_model = [to_numpy(clients.value(model)) for model in models]
    shape = clients.ids.shape
    stacked = np.stack([np.broadcast_to(loss, shape) for loss in by_model], axis=1)
    return np.asarray(stacked, dtype=np.float64)
