"""Base of methods without a server: nodes exchange messages with their neighbours on a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rayfed.algorithms.base import Algorithm, Coded, Round, Weights
from rayfed.core.arrays import Array
from rayfed.core.columns import Column
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import (
    BOTH_WAYS,
    EVERYONE,
    GRAPHS,
    MODEL,
    ONE_ASK,
    OWN_MODELS,
    SIZES,
    SOLVER,
    Terms,
    where,
)
from rayfed.measures.base import Measure
from rayfed.measures.nodes import Consensus
from rayfed.messages import Ask, State, Upload
from rayfed.topology.mixing import MixingRule

if TYPE_CHECKING:
    from rayfed.clients import Clients

SKEW = Column(
    "skew_s", "spread of the nodes' clocks", "s",
    about="Seconds from the first node that has its model of the step to the last one.",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Gossip(Algorithm):
    """Base of methods in which every node steps, and then mixes the messages of its neighbours.

    In step k node i computes, sends a message v_i (`step`), and takes near(v)_i = sum_j w_ij v_j
    over its neighbours and itself (`mix`). The matrix W follows from the ``topology``; on a graph
    that changes over rounds each step has its own. A node waits for its own neighbours alone. The
    model of a row is the mean of the nodes' models by mass; every node has a model of its own.

    Parameters
    ----------
    mixing : "symmetric", "uniform", "lazy" or "push"
        The rule of W; see `rayfed.topology.mixing.mixing`. Masses are n_i under ``weights: size``
        and 1 under ``uniform``.

    Subclasses have a second client function, ``mix(clients, **near)``, which returns next models by
    `mixed`. It gets, for each vector of the message, the rows (K, ...) of near(v).

    Attributes
    ----------
    overlap : bool
        Whether messages do not depend on the step, so that they travel while nodes compute.
    knows_senders : bool
        Whether nodes know in advance which others send to them. If not, they wait for all others on
        graphs with arcs, which their senders draw.
    pushes : bool
        Whether messages hold a second sum, by which the rows of W need not add up to 1.
    """

    needs: ClassVar[Terms] = frozenset({EVERYONE, GRAPHS, SIZES, SOLVER})
    gives: ClassVar[Terms] = frozenset({MODEL, ONE_ASK, OWN_MODELS})
    diagnostics: ClassVar[tuple[Column, ...]] = (SKEW,)
    gossip: ClassVar[bool] = True
    coded: ClassVar[Coded | None] = {}
    overlap: ClassVar[bool] = False
    knows_senders: ClassVar[bool] = True
    pushes: ClassVar[bool] = False

    mixing: MixingRule = "symmetric"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mixing == "push" and not self.pushes:
            text = "found push, whose weights at a node do not add up to 1"
            raise ScenarioError("mixing", f"{text}; use sgp, or another rule")

    @property
    def setting_needs(self) -> Terms:
        """Links in both directions, if messages have weights in both."""
        return where({BOTH_WAYS: self.mixing in ("symmetric", "lazy")})

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The consensus distance."""
        return (Consensus(),)

    def power(self, weights: Weights, draws_by_size: bool) -> int | None:
        """Return the power of its size with which a node counts; unknown with uniform mixing."""
        return None if self.mixing == "uniform" else super().power(weights, draws_by_size)

    def client_state(self, x0: Array) -> State:
        """Return the first model x_i = x0 (p,) of every node."""
        return {"x": x0}

    def message(self, size: int) -> Mapping[str, int]:
        """Return the names and lengths of the vectors of a message, for a model of p = size."""
        return {"x": size}

    def ask(self, size: int) -> Ask:
        """Return the request of a step, for a model of p = size: local steps by default."""
        return Ask("step", send={}, up=self.message(size))

    def round(self, state: State) -> Round:
        """Yield the request of a step; nodes mix without the server."""
        yield self.ask(state["x"].size)
        return state, {}

    def step(self, clients: Clients) -> Upload:
        """Client function: compute, and return the message (K, ...); state stays at the node."""
        raise NotImplementedError

    def stay(self, clients: Clients) -> Upload:
        """Client function of nodes that sit a step out: their models (K, p) as they are."""
        return Upload({"x": clients.state["x"]})

    def models(self, clients: Clients, x: Array) -> Array:
        """Return the nodes' own models (K, p)."""
        return clients.state["x"]


def mixed(x: Array, **state: Array) -> Upload:
    """Return the result of `Gossip.mix`: next models (K, p), and other state of the nodes."""
    return Upload({"x": x}, state={"x": x, **state})
