"""ClusterFedVARP: one memory for each cluster of clients in place of one for each client.

Jhunjhunwala, Sharma, Nagarkatti, Joshi, "FedVARP: Tackling the Variance Due to Partial Client
Participation in Federated Learning", UAI 2022, https://arxiv.org/abs/2207.14130, Algorithm 2.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt, Len

from rayfed.algorithms import memory
from rayfed.algorithms.base import Algorithm, Round
from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.datasets.shards import Shards, label_sets
from rayfed.messages import Ask, Reply, State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients
    from rayfed.population import Population
    from rayfed.problems.objective import Objective


@dataclass(frozen=True, kw_only=True)
class By:
    """What clients of one cluster have in common.

    Parameters
    ----------
    by : "labels" or "updates"
        The set of labels among their training rows, or the direction of their first updates.
    number : int, optional
        How many clusters of updates there are.
    """

    by: Literal["labels", "updates"] = "labels"
    number: Annotated[int, Ge(1)] | None = None

    def __post_init__(self) -> None:
        if self.by == "updates" and self.number is None:
            raise ScenarioError("number", "is missing; say how many clusters of updates")
        if self.by == "labels" and self.number is not None:
            raise ScenarioError("number", "the label sets give the number; leave it out")


@dataclass(frozen=True, kw_only=True)
class ClusterFedVARP(Algorithm):
    """FedVARP with a memory for each cluster of similar clients (Jhunjhunwala et al. 2022).

    The server keeps y_k (p,) of K clusters, zero at the start. With c(i) the cluster of client i,
    v = mean_i (Delta_i - y_c(i)) + (1/N) sum_j y_c(j), x <- x - server_lr v, and then y_k is the
    mean of Delta_i over the participants of cluster k, if there are any.

    Parameters
    ----------
    clusters : int, list of int or mapping
        How many, each client in a random one and all of equal size; or the cluster 0, 1, ... of
        each client; or ``{by: labels}``, clients with the same set of labels; or
        ``{by: updates, number: 10}``, clients whose first updates point alike (`EarlyClusters`).
    server_lr : float
        Server step eta_g.

    Notes
    -----
    As many clusters as clients are FedVARP, one is FedAvg. Random clusters of clients that differ
    do not help; similar clients are what makes y_c(i) close to Delta_i. Means are over clients,
    whatever their size and however often a selection drew them, as the memory is.

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
    >>> mean = {"delta": delta.mean(axis=0)}
    >>> try:
    ...     round.send(Reply(np.array([0, 2]), one, mean, {}, np.ones(2, int), 4, groups))
    ... except StopIteration as end:
    ...     state = end.value[0]
    >>> state["x"], state["y"].tolist()
    (array([3.]), [[3.0], [1.0]])
    """

    name: ClassVar[str] = "clusterfedvarp"

    clusters: Annotated[int, Ge(1)] | Annotated[tuple[Annotated[int, Ge(0)], ...], Len(1)] | By = 5
    server_lr: Annotated[float, Gt(0)] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        memory.refuse_sizes(self)

    def bound(self, shards: Shards, population: Population, objective: Objective) -> ClusterFedVARP:
        """Return the algorithm for clients whose rows are known.

        Raises
        ------
        ScenarioError
            If the clusters do not fit the clients.
        """
        n = shards.clients
        if isinstance(self.clusters, By):
            return self._bound_by(self.clusters, shards, population, objective)
        if isinstance(self.clusters, tuple):
            if len(self.clusters) != n:
                found = f"found the clusters of {len(self.clusters)} clients, but there are {n}"
                raise ScenarioError("clusters", f"{found}; give one for each")
        elif self.clusters > n:
            found = f"found {self.clusters} clusters of {n} clients"
            raise ScenarioError("clusters", f"{found}; give at most {n}")
        return self

    def _bound_by(
        self, by: By, shards: Shards, population: Population, objective: Objective
    ) -> ClusterFedVARP:
        if by.by == "updates":
            from rayfed.algorithms.early_clusters import EarlyClusters  # it extends this class

            settings = {f.name: getattr(self, f.name) for f in fields(self)}
            early = EarlyClusters(**settings | {"clusters": by.number})
            return early.bound(shards, population, objective)
        if not shards.classes:
            text = "found labels, but the targets are numbers; give a number of clusters"
            raise ScenarioError("clusters.by", text)
        return replace(self, clusters=tuple(label_sets(shards).tolist()))

    def init(self, x0: Array) -> State:
        """Nothing is remembered."""
        return {"x": x0, "y": np.zeros((self._count, x0.size), x0.dtype)}

    def train(self, clients: Clients, x: Array) -> Upload:
        """Client half: local steps from x (p,); upload Delta (K, p) and the cluster (K,)."""
        local = clients.solve(x)
        cluster = self._cluster(clients.ids, clients.shards.clients, clients.seed)
        values = {"delta": x - local.x, **self._length(clients)}
        return Upload(values, loss=local.loss, group=cluster)

    def round(self, state: State) -> Round:
        """Server half: what the memory says of everybody, less what it says of the participants."""
        x, y = state["x"], state["y"]
        up = {"delta": x.size, "group": 1, **self._length_up}
        reply = yield Ask("train", send={"x": x}, up=up, plain=("delta",))
        worked = self._worked(reply)
        share = self._sizes(reply.population) / reply.population
        share[reply.groups.labels] -= worked / len(reply.ids)
        v = reply.mean["delta"] + memory.scale(self.local, reply.round) * share.astype(y.dtype) @ y
        return {"x": x - self.server_lr * v, "y": self._renewed(y, reply, worked)}, {}

    def _renewed(self, y: Array, reply: Reply, worked: Floats) -> Array:
        """Return the memories (K, p), those of the reply's clusters in place of the old ones."""
        groups, s = reply.groups, memory.scale(self.local, reply.round)
        y = y.copy()
        y[groups.labels] = groups.mean["delta"] * (groups.counts / (s * worked))[:, None]
        return y

    def _worked(self, reply: Reply) -> Floats:
        """Return how many mean lengths of local work each cluster of the reply has done (G,)."""
        if not self._length_up:
            return reply.groups.counts.astype(np.float64)
        return memory.by_group(reply, reply.each["length"])

    def _length(self, clients: Clients) -> dict[str, Array]:
        """Return how many times their mean steps clients ran (K,), if that is to be told."""
        return {"length": memory.lengths(clients)} if self._length_up else {}

    @cached_property
    def _length_up(self) -> dict[str, int]:
        return {"length": 1} if memory.drawn(self.local) else {}

    def _cluster(self, ids: Ints, clients: int, seed: int) -> Ints:
        """Return the cluster (K,) of each client."""
        if not isinstance(self.clusters, int):
            return self._listed[ids]
        place = Key(seed, "clusters").permutation(clients)(ids)
        return np.asarray(place * self.clusters // clients)

    def _sizes(self, clients: int) -> Floats:
        """Return how many of all clients (K,) belong to each cluster."""
        if isinstance(self.clusters, int):
            bounds = -(-np.arange(self.clusters + 1) * clients // self.clusters)
            return np.diff(bounds).astype(np.float64)
        return np.bincount(self._listed).astype(np.float64)

    @cached_property
    def _listed(self) -> Ints:
        if isinstance(self.clusters, By):
            raise ValueError("these clusters need the clients' rows; see `bound`")
        return np.atleast_1d(np.array(self.clusters, dtype=np.int64))

    @property
    def _count(self) -> int:
        """Number K of clusters."""
        return self.clusters if isinstance(self.clusters, int) else int(self._listed.max()) + 1
