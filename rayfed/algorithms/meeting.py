"""Base of methods without a server and without rounds: nodes meet in pairs, each at its own pace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge

from rayfed.algorithms.base import Algorithm, Round
from rayfed.clients import Clients
from rayfed.core.arrays import Array
from rayfed.core.needs import (
    COUNT_ONCE,
    EVERYONE,
    GRAPHS,
    MODEL,
    ONE_ASK,
    OWN_MODELS,
    SOLVER,
    Terms,
)
from rayfed.measures.base import Measure
from rayfed.measures.nodes import Consensus
from rayfed.messages import Ask, State, Upload


@dataclass(frozen=True, kw_only=True)
class Meeting(Algorithm):
    """Base of methods in which pairs of nodes meet at random.

    A node computes, and then exchanges models with a neighbour that is drawn uniformly. At the
    instant at which the exchange ends, both get what `merge` makes of their models; the node takes
    its step (`step`) and begins its next task in the same instant. So a meeting is atomic: nodes do
    not wait for each other, and there is no deadlock. The model of a row is the mean of the nodes'
    models; every node has a model of its own.

    Parameters
    ----------
    meetings : int, optional
        Meetings in a row; as many as there are nodes if None.
    """

    needs: ClassVar[Terms] = frozenset({EVERYONE, GRAPHS, SOLVER, COUNT_ONCE})
    gives: ClassVar[Terms] = frozenset({MODEL, ONE_ASK, OWN_MODELS})
    gossip: ClassVar[bool] = True
    asynchronous: ClassVar[bool] = True

    meetings: Annotated[int, Ge(1)] | None = None

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The consensus distance."""
        return (Consensus(),)

    def client_state(self, x0: Array) -> State:
        """Return the first model x_i = x0 (p,) of every node, also as its first task reads it."""
        return {"x": x0, "read": x0}

    def message(self, size: int) -> Mapping[str, int]:
        """Return the names and lengths of the vectors of a message, for a model of p = size."""
        return {"x": size}

    def ask(self, size: int) -> Ask:
        """Return the request of a task, for a model of p = size."""
        return Ask("step", send={}, up=self.message(size))

    def round(self, state: State) -> Round:
        """Yield the request of a task; nodes meet without the server."""
        yield self.ask(state["x"].size)
        return state, {}

    def merge(self, mine: Array, yours: Array) -> Array:
        """Return the model (K, p) of both nodes of each of K pairs after they have met."""
        raise NotImplementedError

    def step(self, clients: Clients, x: Array, read: Array) -> Upload:
        """Client function: return the model of nodes at the end of their meeting.

        Parameters
        ----------
        clients : Clients
        x : (K, p) array
            Their merged models.
        read : (K, p) array
            Their models when they began to compute.
        """
        raise NotImplementedError

    def load(self, clients: Clients) -> Upload:
        """Client function: return the state of nodes."""
        return Upload(clients.state)

    def store(self, clients: Clients, **state: Array) -> Upload:
        """Client function: keep the state of nodes, and return their models (K, p)."""
        return Upload({"x": state["x"]}, state=state)

    def models(self, clients: Clients, x: Array) -> Array:
        """Return the nodes' own models (K, p)."""
        return clients.state["x"]
