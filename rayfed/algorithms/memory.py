"""Memories of clients: their weights in the mean over all clients and in later rounds.

A server that remembers what clients did, in an update or in a control variate, keeps the mean over
all N clients alone, and each client keeps its own part (`Weighing`).

FedVARP and ClusterFedVARP (Jhunjhunwala et al. 2022) remember x - x_i of earlier rounds. Its length
goes with the local learning rate and the number of local steps of that round, so what is remembered
is kept for the learning rate of round 1 and stretched to the round that uses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self, TypeAlias

import numpy as np

from rayfed.algorithms.base import Algorithm, Weights
from rayfed.core.arrays import Array, Floats, like, to_numpy
from rayfed.core.errors import ScenarioError
from rayfed.messages import Reply

if TYPE_CHECKING:
    from rayfed.clients import Clients
    from rayfed.datasets.shards import Shards
    from rayfed.solvers.base import Solver

Mirrors: TypeAlias = Mapping[str, tuple[str, Array | float]]
"""See `Upload.mirrors`."""
_COUNTED = "counted"
"""Name of the state in which a client keeps its mass of the round that it last took part in."""


@dataclass(frozen=True)
class Weighing:
    """How clients count in a memory, the mean over all N: as they count in the mean of a round.

    Where rows arrive, sizes change, those of absent clients as well. The memory is a sum of what
    each client counted for when it last took part, in units of the mean client before the first
    round. A client that takes part again takes back just that, whatever its size is now, and who
    uses the memory divides by what all clients count for now. Once no more rows arrive and all
    clients have taken part again, it is the weighted mean of what they keep.

    Parameters
    ----------
    by_size : bool
        Whether clients count by their size, or alike.
    drawn : bool
        Whether it is by size because large clients are drawn more often: the mean over the
        participants is plain then.
    changes : bool
        Whether what they count for changes over rounds.
    """

    by_size: bool = False
    drawn: bool = False
    changes: bool = False

    def shares(self, clients: Clients) -> Floats:
        """Return what clients count for now (K,), in units of the mean client before round 1."""
        if not self.by_size:
            return np.ones(len(clients.ids))
        return clients.objective.shares(clients.mass) * clients.objective.growth

    def times(self, clients: Clients, rows: Array) -> Array:
        """Return rows (K, p) times what their clients count for."""
        return like(self.shares(clients)[:, None], rows) * rows if self.by_size else rows

    def lag(self, clients: Clients) -> Floats:
        """Return what clients counted for when they last took part, relative to now (K,).

        Before its first time a client counts for what it has before the first round.
        """
        if not self.changes:
            return np.ones(len(clients.ids))
        counted = to_numpy(clients.state[_COUNTED])[:, 0]
        first = clients.shards.at(0).mass(clients.ids)
        return np.where(counted > 0, counted, first) / clients.mass

    def remembered(self, clients: Clients, rows: Array) -> Array:
        """Return what the memory holds of clients that keep rows (K, p), divided by `shares`."""
        return like(self.lag(clients)[:, None], rows) * rows if self.changes else rows

    def present(self, memory: Array, growth: float) -> Array:
        """Return a memory (p,) divided by what all clients count for now.

        Parameters
        ----------
        growth : float
            `Reply.growth` at the server, `Objective.growth` at a client.
        """
        return memory / growth if self.changes else memory

    def uploads(self, size: int) -> tuple[dict[str, int], tuple[str, ...]]:
        """Return what clients upload of a change (p,), and which of it has a plain mean."""
        if self.drawn:
            return {"change": size, "kept": size}, ("kept",)
        if self.by_size:
            return {"change": size, "share": 1}, ()
        return {"change": size}, ("change",)

    def sent(self, clients: Clients, change: Array) -> dict[str, Array]:
        """Return the uploads of clients that changed by so much (K, p)."""
        values = {"change": change}
        if self.drawn:
            values["kept"] = self.times(clients, change)
        elif self.by_size:
            values["share"] = self.shares(clients)
        return values

    def mirrored(self, clients: Clients) -> tuple[str, Array]:
        """Return the upload of `sent` that the memory takes, and changes (K, 1) per unit of it."""
        if self.drawn:
            return "kept", 1 / self.shares(clients)[:, None]
        return "change", np.ones((len(clients.ids), 1))

    def mean_change(self, reply: Reply, scale: float) -> Array:
        """Return by how much the mean over all clients changes by a reply.

        It is sum_i w_i (change_i) / sum_j w_j, over `scale`.
        """
        counted = float(reply.each["share"].sum()) if "share" in reply.each else len(reply.ids)
        mean = reply.mean["kept" if self.drawn else "change"]
        return counted / reply.population / scale * mean

    def first(self) -> dict[str, Array]:
        """Return what every client keeps before its first time, beside what is remembered."""
        return {_COUNTED: np.zeros(1)} if self.changes else {}

    def kept(self, clients: Clients) -> dict[str, Array]:
        """Return what clients keep (K, 1) when they have taken part."""
        return {_COUNTED: clients.mass[:, None]} if self.changes else {}


class Stretched:
    """What clients remember of their last update, y (K, p), as long as their update of now.

    It is kept for the learning rate of round 1 and the mean number of steps.

    Parameters
    ----------
    clients : Clients
        With ``y`` in their state.
    local : Solver
    weighing : Weighing

    Attributes
    ----------
    now : (K, p) array
        y for the learning rate and the number of steps of this round.
    """

    def __init__(self, clients: Clients, local: Solver, weighing: Weighing) -> None:
        self.clients, self.weighing = clients, weighing
        self.y = weighing.remembered(clients, clients.state["y"])
        self.rate = scale(local, clients.round)
        self.relative = like(relative_steps(clients)[:, None], self.y)
        self.now = self.rate * self.relative * self.y

    def sent(self, change: Array) -> dict[str, Array]:
        """Return the uploads of clients whose update differs by so much (K, p)."""
        return self.weighing.sent(self.clients, change)

    @property
    def mirrors(self) -> Mirrors:
        """Return what y mirrors: the vector that the server's memory takes."""
        name, factor = self.weighing.mirrored(self.clients)
        return {"y": (name, factor / self.rate)}

    def kept(self, update: Array) -> dict[str, Array]:
        """Return what the clients keep of an update (K, p); more or fewer steps are taken away."""
        y = (1 - self.relative) * self.y + update / self.rate
        return {"y": y, **self.weighing.kept(self.clients)}


@dataclass(frozen=True, kw_only=True)
class Remembering(Algorithm):
    """Base of algorithms whose server remembers what clients did."""

    _weighing: Weighing = field(default=Weighing(), init=False)

    @property
    def remembers(self) -> bool:
        """Whether these settings make it remember anything."""
        return True

    def weighed(self, weights: Weights, draws_by_size: bool, shards: Shards, seed: int) -> Self:
        """Return the algorithm whose memory weighs clients as the mean does.

        Raises
        ------
        ScenarioError
            If large clients are drawn more often and weigh more: then they count twice.
        """
        power = self.power(weights, draws_by_size)
        if not self.remembers or not power:
            return self
        if power > 1:
            text = "found size, but the selection already draws large clients more often"
            raise ScenarioError("weights", f"{text}; leave it out or give uniform")
        bound = copy(self)
        weighing = Weighing(by_size=True, drawn=draws_by_size, changes=shards.moves_sizes)
        object.__setattr__(bound, "_weighing", weighing)
        return bound


def scale(local: Solver, round: int) -> float:
    """Return the local learning rate of a round, from 1, in units of the first round's.

    Server and clients take it from the algorithm's own solver, so that both mean the same memory;
    groups of clients may have other rates.
    """
    return local.rate(round) / local.rate(1)


def relative_steps(clients: Clients) -> Floats:
    """Return how many times its mean number of local steps each client (K,) runs in this round.

    It is 1 where the steps are not drawn, and 1 on average where they are. Steps that follow the
    clients' speed or the loss have no mean that holds in every round, and count as 1.
    """
    mean = clients.solver.mean_steps(clients.sizes)
    return np.ones(len(clients.ids)) if mean is None else clients.steps / mean


def drawn(local: Solver) -> bool:
    """Return whether the number of local steps is drawn anew in every round."""
    return local.mean_steps(np.ones(1, dtype=np.int64)) is not None


def by_group(reply: Reply, counts: Floats) -> Floats:
    """Return the sums (G,) of a number of every participant (K,) over the groups of a reply."""
    labels = reply.groups.labels
    place = np.searchsorted(labels, reply.each["group"])
    return np.bincount(place, counts, len(labels)).astype(np.float64)


def refuse_sizes(algorithm: Algorithm) -> None:
    """Refuse weights by size, which the plain means of a method cannot follow.

    Raises
    ------
    ScenarioError
        If they are asked for.
    """
    if algorithm.weights == "size":
        what = f"found size, but '{algorithm.name}' takes plain means over clients"
        raise ScenarioError("weights", f"{what}; leave it out or give uniform")
