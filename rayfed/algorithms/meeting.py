"""Base of methods without a server and without rounds: nodes meet in pairs at their own pace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from rayfed.algorithms.base import Aim, Algorithm, Round
from rayfed.core.arrays import Array
from rayfed.core.needs import (
    BOTH_WAYS,
    COUNT_ONCE,
    EXACT_UPLOADS,
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

if TYPE_CHECKING:
    from rayfed.clients import Clients

BEGUN = "begun_"
"""Prefix of a node's state as it was when its task began."""


@dataclass(frozen=True, kw_only=True)
class Meeting(Algorithm):
    """Base of methods in which pairs of nodes meet at random, at their own pace.

    Node i begins a task, and then meets a neighbour j that is drawn uniformly. A meeting happens at
    one instant: `merge` makes new models of both or of j, and `step` those of local steps. So nodes
    do not wait for each other, and there is no deadlock. The model of a row is the mean of the
    nodes' models; every node has a model of its own.

    Parameters
    ----------
    meetings : int, optional
        Meetings in a row; as many as there are nodes if None.

    Subclasses have a client function ``step(clients, **merged)``, which returns the state (K, ...)
    of the nodes that compute after a meeting. It gets what `merge` returned, and with answers also
    ``read`` (K, p), the models of these nodes when they began to compute.

    Attributes
    ----------
    answers : bool
        Whether j answers. If so, i computes, then both exchange their models, both get the merged
        one, and i adds its step and begins its next task in the same instant. If not, i sends its
        model, which j merges with its own when it has computed its step; i begins its next task
        no earlier than that, and a period after its last one.
    """

    needs: ClassVar[Terms] = frozenset({BOTH_WAYS, COUNT_ONCE, EXACT_UPLOADS, GRAPHS, SOLVER})
    gives: ClassVar[Terms] = frozenset({MODEL, ONE_ASK, OWN_MODELS})
    gossip: ClassVar[bool] = True
    asynchronous: ClassVar[bool] = True
    aim: ClassVar[Aim] = "own"  # the mean of the F_i weighted by how often nodes take steps
    answers: ClassVar[bool] = True

    meetings: Annotated[int, Ge(1)] | None = None

    @property
    def period(self) -> float:
        """Seconds between the tasks of a node, at least; 0 if there is no such period."""
        return 0.0

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The consensus distance."""
        return (Consensus(),)

    def node_state(self, x0: Array) -> State:
        """Return the first values of what nodes exchange: the model x0 (p,), for example."""
        return {"x": x0}

    def client_state(self, x0: Array) -> State:
        """Return the first state of a node: what it exchanges, now and when its task began."""
        first = self.node_state(x0)
        return {**first, **{f"{BEGUN}{name}": value for name, value in first.items()}}

    def ask(self, x0: Array) -> Ask:
        """Return the request of the task of a node that meets one like it; it sends `up`."""
        merged = self.node_state(x0)
        up = {name: int(np.size(value)) for name, value in merged.items()}
        return Ask("step", send={**merged, "read": x0} if self.answers else merged, up=up)

    def round(self, state: State) -> Round:
        """Yield the request of a task; nodes meet without the server."""
        yield self.ask(state["x"])
        return state, {}

    def merge(self, mine: State, yours: State) -> State:
        """Return the state (K, ...) of nodes after they have met.

        Parameters
        ----------
        mine, yours : mapping of str to (K, ...) array
            The state of i and of j; if nodes do not answer that of j, and that which i has sent.
        """
        raise NotImplementedError

    def load(self, clients: Clients) -> Upload:
        """Client function: return the state of nodes, without that of solvers."""
        names = self.client_state(clients.state["x"][0])
        return Upload({name: clients.state[name] for name in names})

    def store(self, clients: Clients, **state: Array) -> Upload:
        """Client function: keep the state of nodes, and return their models (K, p)."""
        return Upload({"x": state["x"]}, state=state)

    def models(self, clients: Clients, x: Array) -> Array:
        """Return the nodes' own models (K, p)."""
        return clients.state["x"]
