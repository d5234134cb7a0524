"""Server memories: weighted means over all N clients, of which each client keeps its own part.

FedVARP, MIFA, FedDyn and control variates remember a vector y_i (p,) of every client. Client i
keeps its contribution c_i = w_i y_i and uploads the change; the server keeps (1/N) sum_j c_j. The
w_i are those of the mean over participants, relative to their mean over all N clients. Where rows
arrive, they change, and c_i has the weight of the last round that client i took part in.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np

from rayfed.algorithms.base import Algorithm, Weights
from rayfed.core.arrays import Array, Floats, like
from rayfed.core.errors import ScenarioError
from rayfed.messages import Reply

if TYPE_CHECKING:
    from rayfed.clients import Clients
    from rayfed.datasets.shards import Shards


@dataclass(frozen=True, kw_only=True)
class WithMemory(Algorithm):
    """Base of algorithms with a weighted mean over all N clients at the server."""

    _by_size: bool = field(default=False, init=False)
    _drawn: bool = field(default=False, init=False)
    """Whether it is by size because large clients are drawn more often: then the mean over the
    participants is plain, and the memory needs a vector of its own."""

    @property
    def remembers(self) -> bool:
        """Whether these settings use the memory."""
        return True

    def weighed(self, weights: Weights, draws_by_size: bool, shards: Shards, seed: int) -> Self:
        """Return the algorithm with a memory by the weights of the mean over participants.

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
        object.__setattr__(bound, "_by_size", True)
        object.__setattr__(bound, "_drawn", draws_by_size)
        return bound

    def total(self, reply: Reply) -> float:
        """Return sum_S w_i over the participants S."""
        by_size, count = self._by_size, len(reply.ids)
        return float(reply.weights.sum()) / reply.mean_weight if by_size else count

    def shares(self, clients: Clients) -> Floats | None:
        """Return the weights w_i (K,), 1 in the mean over all N clients; None if all are 1."""
        return clients.objective.shares(clients.mass) if self._by_size else None


def times(shares: Floats | None, rows: Array) -> Array:
    """Return rows w_i y_i (K, p)."""
    return rows if shares is None else like(shares[:, None], rows) * rows


def over(shares: Floats | None, rows: Array) -> Array:
    """Return rows c_i / w_i (K, p); c_i, which is zero, where w_i is zero."""
    if shares is None:
        return rows
    divided: Array = rows / like(np.where(shares > 0, shares, 1)[:, None], rows)
    return divided


def change(reply: Reply, name: str = "change") -> Array:
    """Return (1/N) sum_S of the uploads (K, p) of participants S, which have a plain mean."""
    mean: Array = reply.mean[name]
    return len(reply.ids) / reply.population * mean


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
