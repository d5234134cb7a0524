"""ClusterFedVARP whose clusters form themselves: a client joins by its first update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rayfed.algorithms import memory
from rayfed.algorithms.base import Round
from rayfed.algorithms.clusterfedvarp import ClusterFedVARP
from rayfed.core.arrays import Array, Ints
from rayfed.core.rng import Key
from rayfed.messages import Ask, State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients

_UNKNOWN = 2**62  # clients: the first reply tells how many there are


@dataclass(frozen=True, kw_only=True)
class EarlyClusters(ClusterFedVARP):
    """ClusterFedVARP with `clusters` clusters of clients whose first updates point alike.

    A client joins in the first round that it takes part in and stays: a random empty cluster while
    there are some, later the one whose memory y_k (p,) has the largest cosine with its Delta. The
    server sees sums by cluster alone; until every client belongs to one it sends the memories
    along, K vectors more, which are charged. Who never took part counts with y = 0.
    """

    def init(self, x0: Array) -> State:
        """Nothing is remembered, and nobody is a member."""
        members = np.zeros(self._count, dtype=np.int64)
        return {**super().init(x0), "members": members, "population": np.array(_UNKNOWN)}

    def client_state(self, x0: Array) -> State:
        """Let every client begin outside of all clusters."""
        return {"cluster": np.full(1, -1.0)}

    def train(
        self, clients: Clients, x: Array, y: Array | None = None, members: Ints | None = None
    ) -> Upload:
        """Client half: local steps from x (p,); who is new joins a cluster of y (K, p)."""
        local = clients.solve(x)
        delta = x - local.x
        cluster = clients.state["cluster"][:, 0].astype(np.int64)
        new = cluster < 0
        if y is not None and members is not None:
            cluster = np.where(new, _joined(clients, delta, y, members), cluster)
        values = {"delta": delta, "new": new.astype(np.float64), **self._length(clients)}
        return Upload(values, {"cluster": cluster[:, None]}, local.loss, cluster)

    def round(self, state: State) -> Round:
        """Server half: as ClusterFedVARP's, over the members of before the round."""
        x, y, members = state["x"], state["y"], state["members"]
        send = {"x": x}
        if members.sum() < state["population"]:
            send |= {"y": y, "members": members}
        up = {"delta": x.size, "new": 1, "group": 1, **self._length_up}
        reply = yield Ask("train", send=send, up=up, plain=("delta",))
        new = reply.each["new"]
        lengths = reply.each["length"] if self._length_up else np.ones(len(new))
        labels = reply.groups.labels
        joined = np.bincount(reply.each["group"], new, self._count).astype(np.int64)
        share = members / reply.population
        share[labels] -= memory.by_group(reply, lengths * (1 - new)) / len(reply.ids)
        v = reply.mean["delta"] + memory.scale(self.local, reply.round) * share.astype(y.dtype) @ y
        after = {"x": x - self.server_lr * v, "y": self._renewed(y, reply, self._worked(reply))}
        after |= {"members": members + joined, "population": np.array(reply.population)}
        return after, {}


def _joined(clients: Clients, delta: Array, y: Array, members: Ints) -> Ints:
    """Return the cluster (K,) that each client joins if it is new."""
    empty = np.flatnonzero(members == 0)
    if len(empty):
        high = np.full(len(clients.ids), len(empty))
        return empty[Key(clients.seed, "clusters").integers(clients.ids, high, 1)[:, 0]]
    norms = np.sqrt(np.vecdot(y, y))
    cosines = np.vecdot(delta[:, None, :], y) / np.where(norms > 0, norms, 1)
    return np.asarray(cosines.argmax(axis=1))
