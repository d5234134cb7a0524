"""Topologies with arcs: clients send to others that need not send back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from rayfed.core.arrays import Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.topology.base import Policy, refuse_large
from rayfed.topology.graph import Directed, Graph
from rayfed.topology.shapes import ByRounds, picks


@dataclass(frozen=True, kw_only=True)
class Exponential(ByRounds):
    """Each client sends to those 1, 2, 4, ... places ahead of it, modulo the number of clients.

    The static exponential graph of M. Assran, N. Loizou, N. Ballas, M. Rabbat, "Stochastic Gradient
    Push for Distributed Deep Learning", ICML 2019.
    """

    name: ClassVar[str] = "exponential"

    def maker(self, count: int, seed: int) -> Callable[[int, int], Graph]:
        """Return the same graph for every epoch."""
        graph = _ahead(count, _powers(count))
        return lambda epoch, attempt: graph


@dataclass(frozen=True, kw_only=True)
class OnePeer(ByRounds):
    """Each client sends to one that is 1, then 2, 4, ... places ahead of it, in turn.

    The one-peer exponential graphs of Assran et al., ICML 2019. A single one of them is not
    connected, so that by default none needs to be.

    Parameters
    ----------
    every : int
        Rounds with the same graph.
    """

    name: ClassVar[str] = "one-peer"
    rotates: ClassVar[bool] = True

    every: Annotated[int, Ge(1)] = 1
    disconnected: Policy = "allow"

    def maker(self, count: int, seed: int) -> Callable[[int, int], Graph]:
        """Return the graph of one power of two after the other."""
        powers = _powers(count)
        return lambda epoch, attempt: _ahead(count, powers[epoch % max(1, len(powers)) :][:1])


@dataclass(frozen=True, kw_only=True)
class OutDegree(ByRounds):
    """Each client sends to others that it draws, uniformly without replacement.

    The graph of EL-Local (M. de Vos, S. Farhadkhani, R. Guerraoui, A.-M. Kermarrec, R. Pires, R.
    Sharma, "Epidemic Learning: Boosting Decentralized Learning with Randomized Communication",
    NeurIPS 2023) if drawn anew in every round. Clients without senders occur, so that by default
    the graph need not be connected.

    Parameters
    ----------
    number : int
        Receivers of each client.
    """

    name: ClassVar[str] = "out-degree"
    drawn: ClassVar[bool] = True

    number: Annotated[int, Ge(1)] = 5
    disconnected: Policy = "allow"

    def maker(self, count: int, seed: int) -> Callable[[int, int], Graph]:
        """Return a function that draws the receivers of an epoch and attempt."""
        if self.number >= count:
            text = f"found {self.number} receivers among {count} clients"
            remedy = f"give at most {count - 1}" if count > 1 else "use more clients"
            raise ScenarioError("topology.number", f"{text}; {remedy}")
        refuse_large(self.number * count)
        key, ids = Key(seed, f"topology/{self.name}"), np.arange(count)

        def draw(epoch: int, attempt: int) -> Graph:
            ahead = 1 + picks(count, self.number, count - 1, key.generator(epoch, attempt))
            return Directed(count, _arcs(ids, ahead, count))

        return draw


def _powers(count: int) -> Ints:
    """Return 1, 2, 4, ... below the number of clients."""
    return 2 ** np.arange((count - 1).bit_length())


def _ahead(count: int, places: Ints) -> Directed:
    """Return the arcs from each client to those so many places ahead."""
    refuse_large(count * len(places))
    return Directed(count, _arcs(np.arange(count), np.tile(places, (count, 1)), count))


def _arcs(ids: Ints, ahead: Ints, count: int) -> Ints:
    """Return the arcs (A, 2) from clients to those so many places (N, d) ahead."""
    return np.stack(np.broadcast_arrays(ids[:, None], (ids[:, None] + ahead) % count), axis=2)
