"""Clusters by first updates: a client joins in its first round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rayfed.algorithms.clusterfedvarp.members import Members
from rayfed.core.arrays import Array, Floats, Ints, inner, namespace, to_numpy
from rayfed.core.rng import Key
from rayfed.messages import Reply, State

if TYPE_CHECKING:
    from rayfed.clients import Clients

_UNKNOWN = 2**62  # clients: the first reply tells how many there are


@dataclass(frozen=True)
class Early(Members):
    """Clusters of clients with first updates in a similar direction.

    A client joins in the first round that it takes part in and stays: a random empty cluster while
    there are some, later the one whose memory y_k (p,) has the largest cosine with its Delta. The
    server sees sums by cluster alone; until every client belongs to one it sends the memories
    along, K vectors more, which are charged. Clients that never took part count with y = 0.

    Parameters
    ----------
    count : int
        Number of clusters.
    """

    count: int
    up: ClassVar[Mapping[str, int]] = {"new": 1}

    def init(self) -> State:
        """Return empty clusters, of an unknown number of clients."""
        return {"members": np.zeros(self.count, np.int64), "population": np.array(_UNKNOWN)}

    def client_state(self) -> State:
        """Return no cluster at all."""
        return {"cluster": np.full(1, -1.0)}

    def send(self, state: State) -> State:
        """Return the memories and the sizes of the clusters while some clients are new."""
        complete = state["members"].sum() == state["population"]
        return {} if complete else {"y": state["y"], "members": state["members"]}

    def join(
        self, clients: Clients, delta: Array, sent: State
    ) -> tuple[Ints, Mapping[str, Array], State]:
        """Return the clusters (K,) that clients are in or join, and whether they are new."""
        cluster = to_numpy(clients.state["cluster"])[:, 0].astype(np.int64)
        new = cluster < 0
        if sent:
            nearest = _nearest(clients, delta, sent["y"], sent["members"])
            cluster = np.where(new, nearest, cluster)
        return cluster, {"new": new.astype(np.float64)}, {"cluster": cluster[:, None]}

    def sizes(self, state: State, clients: int) -> Floats:
        """Return the numbers of clients that have joined each cluster (K,)."""
        return np.asarray(state["members"], dtype=np.float64)

    def known(self, reply: Reply) -> Floats:
        """Return 1 for clients that are not new (K,), else 0."""
        return 1 - reply.each["new"]

    def renewed(self, state: State, reply: Reply) -> State:
        """Return the sizes of the clusters, new clients included."""
        joined = np.bincount(reply.each["group"], reply.each["new"], self.count).astype(np.int64)
        return {"members": state["members"] + joined, "population": np.array(reply.population)}


def _nearest(clients: Clients, delta: Array, y: Array, members: Ints) -> Ints:
    """Return the cluster (K,) that each client joins if it is new."""
    empty = np.flatnonzero(members == 0)
    if len(empty):
        high = np.full(len(clients.ids), len(empty))
        return empty[Key(clients.seed, "clusters").integers(clients.ids, high, 1)[:, 0]]
    xp = namespace(y)
    norms = to_numpy(xp.sqrt(inner(y, y)))
    cosines = to_numpy(inner(delta[:, None, :], y)) / np.where(norms > 0, norms, 1)
    return np.asarray(cosines.argmax(axis=1))
