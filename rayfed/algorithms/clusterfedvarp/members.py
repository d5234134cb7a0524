"""Clusters of ClusterFedVARP that are settled before a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge

from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.names import called, numbered
from rayfed.core.rng import Key
from rayfed.messages import Reply, State

if TYPE_CHECKING:
    from rayfed.clients import Clients
    from rayfed.datasets.shards import Shards
    from rayfed.population import Population


@dataclass(frozen=True, kw_only=True)
class By:
    """The property that clients of one cluster share.

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


class Members:
    """Base of the ways to form clusters.

    Attributes
    ----------
    count : int
        Number K of clusters.
    up : dict of str to int
        Uploads about membership in addition to the cluster.
    """

    count: int
    up: ClassVar[Mapping[str, int]] = {}

    def shares(self, shards: Shards, seed: int) -> Floats | None:
        """Return the share (K,) that the members of each cluster have of all clients' mass.

        Returns
        -------
        (K,) array or None
            None if members are not known before a run.
        """
        return None

    def init(self) -> State:
        """Return the server's state of memberships."""
        return {}

    def client_state(self) -> State:
        """Return the state of every client's membership."""
        return {}

    def send(self, state: State) -> State:
        """Return the arrays that clients download to find their cluster."""
        return {}

    def join(
        self, clients: Clients, delta: Array, sent: State
    ) -> tuple[Ints, Mapping[str, Array], State]:
        """Return the clusters (K,) of clients, the uploads that `up` declares, and the new state.

        Parameters
        ----------
        delta : (K, p) array
            Their updates of this round.
        sent : mapping of str to array
            What `send` returned.
        """
        raise NotImplementedError

    def sizes(self, state: State, clients: int) -> Floats:
        """Return the number of all clients in each cluster at the start of a round (K,)."""
        raise NotImplementedError

    def known(self, reply: Reply) -> Floats:
        """Return 1 for participants in their cluster before the round (K,), else 0."""
        return np.ones(len(reply.ids))

    def renewed(self, state: State, reply: Reply) -> State:
        """Return the server's state after a round."""
        return {}


@dataclass(frozen=True)
class RandomClusters(Members):
    """Random clusters of equal size, of which the seed chooses the members.

    Parameters
    ----------
    count : int
        Number of clusters.
    """

    count: int

    def join(
        self, clients: Clients, delta: Array, sent: State
    ) -> tuple[Ints, Mapping[str, Array], State]:
        """Return the drawn clusters (K,)."""
        return self.cluster(clients.ids, clients.shards.clients, clients.seed), {}, {}

    def shares(self, shards: Shards, seed: int) -> Floats:
        """Return the share of all mass (K,) that the drawn members have."""
        ids = np.arange(shards.clients)
        return _shares(self.cluster(ids, shards.clients, seed), shards, self.count)

    def cluster(self, ids: Ints, clients: int, seed: int) -> Ints:
        """Return the cluster of each client (K,), of so many clients in all."""
        place = Key(seed, "clusters").permutation(clients)(ids)
        return np.asarray(place * self.count // clients)

    def sizes(self, state: State, clients: int) -> Floats:
        """Return sizes (K,) that differ by one at most."""
        bounds = -(-np.arange(self.count + 1) * clients // self.count)
        return np.diff(bounds).astype(np.float64)


class GivenClusters(Members):
    """Clusters that are given.

    Parameters
    ----------
    clusters : sequence of int
        The cluster 0, 1, ... of each client.
    """

    def __init__(self, clusters: Sequence[int]) -> None:
        self.clusters: Ints = np.array(clusters, dtype=np.int64)
        self.count = int(self.clusters.max()) + 1

    def join(
        self, clients: Clients, delta: Array, sent: State
    ) -> tuple[Ints, Mapping[str, Array], State]:
        """Return the given clusters (K,)."""
        return self.clusters[clients.ids], {}, {}

    def shares(self, shards: Shards, seed: int) -> Floats:
        """Return the share of all mass (K,) that the given members have."""
        return _shares(self.clusters, shards, self.count)

    def sizes(self, state: State, clients: int) -> Floats:
        """Return the counted sizes (K,)."""
        return np.bincount(self.clusters).astype(np.float64)


def _shares(cluster: Ints, shards: Shards, count: int) -> Floats:
    """Return the share of all mass (K,) that the clients of each cluster have."""
    mass = shards.mass(np.arange(shards.clients))
    return np.asarray(np.bincount(cluster, mass, count) / mass.sum())


def by_client(clusters: Sequence[Sequence[int | str]], population: Population) -> tuple[int, ...]:
    """Return the cluster of each client (N,), given the clients of each cluster by id or name.

    Raises
    ------
    ScenarioError
        If a client is in none or in two, or does not exist.
    """
    n = population.count
    owner = np.full(n, -1)
    for cluster, members in enumerate(clusters):
        try:
            ids = numbered(members, population.names)
        except ScenarioError as error:
            raise error.under(f"clusters.{cluster}") from None
        for client in ids:
            if client >= n or owner[client] != -1:
                text = f"found client {client}"
                wrong = f"; ids go from 0 to {n - 1}" if client >= n else " twice; list it once"
                raise ScenarioError(f"clusters.{cluster}", text + wrong)
            owner[client] = cluster
    for client in np.flatnonzero(owner < 0)[:1]:
        text = f"{called(np.array([client]), population.names)} is in none; list every client once"
        raise ScenarioError("clusters", text)
    return tuple(owner.tolist())
