"""ClusterFedVARP: one memory for each cluster of clients in place of one for each client.

Jhunjhunwala, Sharma, Nagarkatti, Joshi, "FedVARP: Tackling the Variance Due to Partial Client
Participation in Federated Learning", UAI 2022, https://arxiv.org/abs/2207.14130, Algorithm 2.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Gt, Len

from rayfed.algorithms import memory
from rayfed.algorithms.base import Coded, Round, Weights
from rayfed.algorithms.clusterfedvarp.early import Early
from rayfed.algorithms.clusterfedvarp.members import (
    By,
    GivenClusters,
    Members,
    RandomClusters,
    by_client,
)
from rayfed.core.arrays import Array, Floats
from rayfed.core.errors import ScenarioError
from rayfed.datasets.shards import Shards, label_sets
from rayfed.messages import Ask, Reply, State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients
    from rayfed.population import Population
    from rayfed.problems.objective import Objective


@dataclass(frozen=True, kw_only=True)
class ClusterFedVARP(memory.Remembering):
    """FedVARP with a memory for each cluster of similar clients (Jhunjhunwala et al. 2022).

    The server keeps y_k (p,) of K clusters, zero at the start. With c(i) the cluster of client i,
    v = mean_i (Delta_i - y_c(i)) + mean_j y_c(j) over participants i and all clients j,
    x <- x - server_lr v, and then y_k is the mean of Delta_i over the participants of cluster k, if
    there are any. Means are weighted as in `FedVARP`.

    Parameters
    ----------
    clusters : int, list or mapping
        How many, each client in a random one and all of equal size; or the cluster 0, 1, ... of
        each client; or the clients of each cluster, lists of ids or names; or ``{by: labels}``,
        clients with the same set of labels; or ``{by: updates, number: 10}``, clients whose first
        updates point alike (`Early`).
    server_lr : float
        Server step eta_g.

    Notes
    -----
    As many clusters as clients are FedVARP, one is FedAvg. Random clusters of clients that differ
    do not help; similar clients are what makes y_c(i) close to Delta_i.

    The server adds up Delta_i cluster by cluster, so that it sees no single one (where two of a
    cluster take part), and needs no table of clients.

    Deviations from the paper: its local step is constant. Where it changes, y_k is kept for the
    learning rate of round 1, as in FedVARP. Where the number of local steps is drawn, clients also
    send how many times their mean k_i they ran: y_c(i) counts k_i times for a participant, and the
    new y_k is the sum of Delta_i over the sum of k_i.

    Examples
    --------
    Clients 0 and 1 of four are one cluster, 2 and 3 the other. Client 0 moves by 3, client 2 by 1,
    the memories are 2 and 0: they cancel, since half of each, drawn or not, is in each cluster.

    >>> from rayfed.messages import Groups, Reply
    >>> algorithm = ClusterFedVARP(clusters=(0, 0, 1, 1))
    >>> round = algorithm.round({"x": np.array([5.0]), "y": np.array([[2.0], [0.0]])})
    >>> ask = next(round)
    >>> one, delta = np.ones(2), np.array([[3.0], [1.0]])
    >>> groups = Groups(np.arange(2), np.ones(2, int), one, {"delta": delta})
    >>> mean, each = {"delta": delta.mean(axis=0)}, {"group": np.arange(2)}
    >>> try:
    ...     round.send(Reply(np.array([0, 2]), one, mean, each, np.ones(2, int), 4, groups))
    ... except StopIteration as end:
    ...     state = end.value[0]
    >>> state["x"], state["y"].tolist()
    (array([3.]), [[3.0], [1.0]])
    """

    name: ClassVar[str] = "clusterfedvarp"
    coded: ClassVar[Coded] = {"delta": "any"}

    clusters: (
        Annotated[int, Ge(1)]
        | Annotated[tuple[Annotated[int, Ge(0)], ...], Len(1)]
        | Annotated[tuple[tuple[Annotated[int, Ge(0)] | str, ...], ...], Len(1)]
        | By
    ) = 5
    server_lr: Annotated[float, Gt(0)] = 1.0

    _shares: Floats | None = field(default=None, init=False, compare=False)

    def bound(self, shards: Shards, population: Population, objective: Objective) -> ClusterFedVARP:
        """Return the algorithm for clients whose rows are known.

        Raises
        ------
        ScenarioError
            If the clusters do not fit the clients.
        """
        n, clusters = shards.clients, self.clusters
        if isinstance(clusters, tuple):
            if isinstance(clusters[0], tuple):
                return replace(self, clusters=by_client(clusters, population))
            if len(clusters) != n:
                text = f"found the clusters of {len(clusters)} clients, but there are {n}"
                raise ScenarioError("clusters", f"{text}; give one for each")
            return self
        count = clusters.number if isinstance(clusters, By) else clusters
        if count is not None:
            if count > n:
                text = f"found {count} clusters of {n} clients"
                raise ScenarioError("clusters", f"{text}; give at most {n}")
            return self
        if not shards.classes:
            text = "found labels, but the targets are numbers; give a number of clusters"
            raise ScenarioError("clusters.by", text)
        try:
            sets = label_sets(shards)
        except ScenarioError as error:
            raise error.under("clusters.by") from None
        return replace(self, clusters=tuple(sets.tolist()))

    def weighed(
        self, weights: Weights, draws_by_size: bool, shards: Shards, seed: int
    ) -> ClusterFedVARP:
        """Return the algorithm whose memory weighs clients as the step does."""
        bound = super().weighed(weights, draws_by_size, shards, seed)
        if bound._weighing.by_size:
            object.__setattr__(bound, "_shares", self.members.shares(shards, seed))
        return bound

    @cached_property
    def members(self) -> Members:
        """Who belongs to which cluster."""
        if isinstance(self.clusters, int):
            return RandomClusters(self.clusters)
        if isinstance(self.clusters, tuple):
            listed = [cluster for cluster in self.clusters if isinstance(cluster, int)]
            if not listed:
                raise ValueError("lists of clients need their number; see `bound`")
            return GivenClusters(listed)
        if self.clusters.number is None:
            raise ValueError("these clusters need the clients' rows; see `bound`")
        return Early(self.clusters.number)

    def init(self, x0: Array) -> State:
        """Return x (p,), memories y (K, p) of zero, and what is known of the members.

        That is what has been learned of the sizes of clusters (K,), where they must be.
        """
        count = self.members.count
        y = np.zeros((count, x0.size), x0.dtype)
        learned = {"mass": np.zeros(count)} if self._learns_shares else {}
        return {"x": x0, "y": y, **self.members.init(), **learned}

    def client_state(self, x0: Array) -> State:
        """Return what a client must remember of its cluster."""
        return {**self.members.client_state(), **self._weighing.first()}

    def train(self, clients: Clients, x: Array, **sent: Array) -> Upload:
        """Client function: local steps from x (p,); upload Delta (K, p) and the cluster (K,)."""
        local = clients.solve(x)
        delta = x - local.x
        cluster, values, state = self.members.join(clients, delta, sent)
        values = {"delta": delta, **values}
        if self._counts_steps:
            values["length"] = memory.relative_steps(clients)
        if self._learns_shares:
            known = 1 - values.get("new", np.zeros(len(cluster)))
            lag = self._weighing.lag(clients)
            values["share"] = self._weighing.shares(clients) * (1 - known * lag)
        return Upload(values, {**state, **self._weighing.kept(clients)}, local.loss, cluster)

    def round(self, state: State) -> Round:
        """Server function: the mean memory of all clients, less that of the participants."""
        x, y, members = state["x"], state["y"], self.members
        up = {"delta": x.size, "group": 1, **members.up}
        up |= {"length": 1} if self._counts_steps else {}
        up |= {"share": 1} if self._learns_shares else {}
        send = {"x": x, **members.send(state)}
        reply = yield Ask("train", send=send, up=up)
        w = reply.weights * (reply.each["length"] if self._counts_steps else 1.0)
        labels, s = reply.groups.labels, memory.scale(self.local, reply.round)
        share = self._share(state, reply)
        share[labels] -= memory.by_group(reply, w * members.known(reply)) / reply.weights.sum()
        v = reply.mean["delta"] + s * share.astype(y.dtype) @ y
        y = y.copy()
        scaled = reply.groups.weights / (s * memory.by_group(reply, w))
        y[labels] = reply.groups.mean["delta"] * scaled[:, None]
        after = {"x": x - self.server_lr * v, "y": y, **members.renewed(state, reply)}
        if self._learns_shares:
            after["mass"] = state["mass"] + self._told(reply, 1.0)
        return after, {}

    def _share(self, state: State, reply: Reply) -> Floats:
        """Return the weight of each cluster (K,) in the mean over all clients.

        A client that is new was not in its cluster before, and does not count there yet.
        """
        if not self._weighing.by_size:
            return self.members.sizes(state, reply.population) / reply.population
        share = np.zeros(self.members.count) if self._shares is None else self._shares.copy()
        if self._learns_shares:
            told = self._told(reply, self.members.known(reply))
            share += (state["mass"] + told) / reply.population
        return np.asarray(self._weighing.present(share, reply.growth))

    def _told(self, reply: Reply, known: Floats | float) -> Floats:
        """Return by how much the sizes of clusters (K,) changed, of participants that count."""
        told = reply.each["share"] * known
        return np.asarray(np.bincount(reply.each["group"], told, self.members.count), dtype=float)

    @property
    def _learns_shares(self) -> bool:
        """Whether the sizes of clusters are learned from those who join, or who change."""
        return self._weighing.by_size and (self._shares is None or self._weighing.changes)

    @cached_property
    def _counts_steps(self) -> bool:
        """Whether clients upload how many times their mean number of steps they ran."""
        return memory.drawn(self.local)
