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
from rayfed.core.arrays import Array, Floats, to_numpy
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import GLOBAL_STEPS, LABELS, ROWS, Terms, where
from rayfed.datasets.shards import Shards, label_sets
from rayfed.messages import Ask, Reply, State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients
    from rayfed.population import Population
    from rayfed.problems.objective import Objective


@dataclass(frozen=True, kw_only=True)
class ClusterFedVARP(memory.WithMemory):
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
    do not help: y_c(i) is close to Delta_i only among similar clients.

    The server adds up Delta_i cluster by cluster, so that it sees no single one (where two of a
    cluster take part), and needs no table of clients. Where learning rates or numbers of local
    steps change, y_k is still the mean update as it was, as in FedVARP.

    Deviations from the paper: none with ``weights: uniform``, which it has. By size a cluster
    counts for the sizes of its clients; where rows arrive, for those in the last round that each
    took part in.

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
    gives: ClassVar[Terms] = memory.WithMemory.gives | {GLOBAL_STEPS}
    coded: ClassVar[Coded] = {"delta": "any"}

    clusters: (
        Annotated[int, Ge(1)]
        | Annotated[tuple[Annotated[int, Ge(0)], ...], Len(1)]
        | Annotated[tuple[tuple[Annotated[int, Ge(0)] | str, ...], ...], Len(1)]
        | By
    ) = 5
    server_lr: Annotated[float, Gt(0)] = 1.0

    _shares: Floats | None = field(default=None, init=False, compare=False)
    """The share of all mass (K,) that each cluster has before round 1; None if it is not known, or
    clients count alike."""
    _learns: bool = field(default=False, init=False, compare=False)
    """Whether shares are learned from the clients who join, or whose sizes change."""

    @property
    def setting_needs(self) -> Terms:
        """Labels, if they make the clusters."""
        by_label = isinstance(self.clusters, By) and self.clusters.by == "labels"
        return where({ROWS: by_label, LABELS: by_label})

    def bound(self, shards: Shards, population: Population, objective: Objective) -> ClusterFedVARP:
        """Return the algorithm for these clients.

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
        try:
            sets = label_sets(shards)
        except ScenarioError as error:
            raise error.under("clusters.by") from None
        return replace(self, clusters=tuple(sets.tolist()))

    def weighed(
        self, weights: Weights, draws_by_size: bool, shards: Shards, seed: int
    ) -> ClusterFedVARP:
        """Return the algorithm whose memories have the weights of the step."""
        bound = super().weighed(weights, draws_by_size, shards, seed)
        if bound._by_size:
            known = self.members.shares(shards, seed)
            object.__setattr__(bound, "_shares", known)
            object.__setattr__(bound, "_learns", known is None or shards.moves_sizes)
        return bound

    @cached_property
    def members(self) -> Members:
        """The cluster of each client."""
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
        """Return x (p,), memories y (K, p) of zero, and the sizes of clusters if needed."""
        count = self.members.count
        y = np.zeros((count, x0.size), x0.dtype)
        learned = {"mass": np.zeros(count)} if self._learns else {}
        return {"x": x0, "y": y, **self.members.init(), **learned}

    def client_state(self, x0: Array) -> State:
        """Return a client's cluster, and the weight that the server knows of it, if needed."""
        return {**self.members.client_state(), **({"w": np.zeros(1)} if self._learns else {})}

    def train(self, clients: Clients, x: Array, **sent: Array) -> Upload:
        """Client function: local steps from x (p,); upload Delta (K, p) and the cluster (K,)."""
        local = clients.solve(x)
        delta = x - local.x
        cluster, values, state = self.members.join(clients, delta, sent)
        values = {"delta": delta, **values}
        shares = self.shares(clients)
        if self._learns and shares is not None:
            values["share"] = shares - self._counted(clients)
            state = {**state, "w": shares[:, None]}
        return Upload(values, state, local.loss, cluster)

    def round(self, state: State) -> Round:
        """Server function: the mean memory of all clients, less that of the participants."""
        x, y, members = state["x"], state["y"], self.members
        up = {"delta": x.size, "group": 1, **members.up, **({"share": 1} if self._learns else {})}
        reply = yield Ask("train", send={"x": x, **members.send(state)}, up=up)
        known, labels = members.known(reply), reply.groups.labels
        share = self._share(state, reply)
        share -= self._by_cluster(reply, reply.weights * known) / reply.weights.sum()
        v = reply.mean["delta"] + share.astype(y.dtype) @ y
        y = y.copy()
        y[labels] = reply.groups.mean["delta"]
        after = {"x": x - self.server_lr * v, "y": y, **members.renewed(state, reply)}
        if self._learns:
            after["mass"] = state["mass"] + self._by_cluster(reply, reply.each["share"])
        return after, {}

    def _share(self, state: State, reply: Reply) -> Floats:
        """Return the weight of each cluster (K,) in the mean over all clients.

        A client that is new was not in its cluster before, and does not count there yet.
        """
        if not self._by_size:
            return self.members.sizes(state, reply.population) / reply.population
        share = np.zeros(self.members.count) if self._shares is None else self._shares.copy()
        if self._learns:
            change = self._by_cluster(reply, reply.each["share"] * self.members.known(reply))
            share += (state["mass"] + change) / reply.population
        return share

    def _counted(self, clients: Clients) -> Floats:
        """Return the weights (K,) with which the server counts clients; 0 for new ones."""
        counted = to_numpy(clients.state["w"])[:, 0]
        if self._shares is None:
            return counted
        first = clients.shards.at(0)
        mean = first.totals[1] / first.clients
        return np.where(counted > 0, counted, first.mass(clients.ids) / mean)

    def _by_cluster(self, reply: Reply, numbers: Floats) -> Floats:
        """Return the sums by cluster (K,) of a number of each participant."""
        return np.bincount(reply.each["group"], numbers, self.members.count).astype(np.float64)
