"""Multi-Walk: models that walk over a graph and take local steps at each node.

Gholami, Seferoglu, "A Tale of Two Learning Algorithms: Multiple Stream Random Walk and Asynchronous
Gossip", 2025, https://arxiv.org/abs/2504.09792. The update is that of the authors' released code.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from rayfed.algorithms.base import Aim, Algorithm, Coded, Round, Weights
from rayfed.core.arrays import Array
from rayfed.core.columns import Column
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import (
    BOTH_WAYS,
    BY_CLOCK,
    FIXED_ROWS,
    GRAPHS,
    MODEL,
    ONE_ASK,
    SOLVER,
    Terms,
)
from rayfed.messages import Ask, State, Upload
from rayfed.topology.walks.metropolis import Metropolis, Walk

if TYPE_CHECKING:
    from rayfed.clients import Clients
    from rayfed.datasets.shards import Shards
    from rayfed.population import Population
    from rayfed.problems.objective import Objective
    from rayfed.selection.base import Selection
    from rayfed.topology import Graphs


@dataclass(frozen=True, kw_only=True)
class MultiWalk(Algorithm):
    """Random walks of several models without a server (Gholami, Seferoglu 2025).

    R models x_r (p,) walk over the links of the ``topology``. A model takes local steps at each
    node that it visits, and moves on along a link. The node `home` keeps u (p,) and, for each walk,
    l_r (p,), the model with which the walk left home last. When walk r has taken its steps there,

        u <- u + (x_r - l_r) / R,  x_r <- u,  l_r <- u.

    Parameters
    ----------
    walks : int
        Number R of walks. Their first nodes are drawn by the seed.
    rule : Walk
        Where a walk goes next; "metropolis" visits all nodes alike.
    home : int
        Id of the node at which walks exchange their progress.

    Notes
    -----
    A row is a visit: its time is that at which a walk has taken its steps at a node. A node serves
    one walk at a time, in the order of their arrival. A move takes both latencies, the bytes of the
    model over the slower of the sender's upload and the receiver's download, and the seconds of the
    rule; staying takes none and sends nothing. Learning rates and draws go by the number of a
    walk's own visits. A visit begins when its node is available; if that leaves or loses the visit,
    the model stays as it came. A walk moves only between nodes that are available, and makes
    another visit where it is otherwise. The setting `weights` has no effect: all F_i count alike
    where all nodes are visited alike.

    The model that is evaluated is the mean of the x_r. With one walk it is that of ``fedavg`` with
    ``select: {name: walk, neighbours: false}``.

    Deviations from the paper: none known.

    Examples
    --------
    The second of two walks comes home, from which it left with 1, with 3:

    >>> method = MultiWalk(walks=2)
    >>> one = np.ones(1)
    >>> state = method.visited(method.init(one), walk=1, node=0, model=3 * one)
    >>> state["u"].tolist(), state["walks"].tolist(), state["x"].tolist()
    ([2.0], [[1.0], [2.0]], [1.5])
    """

    name: ClassVar[str] = "multi-walk"
    needs: ClassVar[Terms] = frozenset({BOTH_WAYS, BY_CLOCK, FIXED_ROWS, GRAPHS, SOLVER})
    gives: ClassVar[Terms] = frozenset({MODEL, ONE_ASK})
    aim: ClassVar[Aim] = "plain"
    diagnostics: ClassVar[tuple[Column, ...]] = (
        Column("walk", about="The walk that has made a visit, from 0."),
        Column("node", about="Id of the node that it has visited."),
    )
    gossip: ClassVar[bool] = True
    coded: ClassVar[Coded] = {}

    walks: Annotated[int, Ge(1)] = 4
    rule: Walk = field(default_factory=Metropolis)
    home: Annotated[int, Ge(0)] = 0

    def bound(self, shards: Shards, population: Population, objective: Objective) -> MultiWalk:
        """Refuse a home that does not exist."""
        if self.home >= population.count:
            text = f"found {self.home}, but clients are 0 to {population.count - 1}"
            raise ScenarioError("home", f"{text}; give one of them")
        return self

    def on_graphs(self, graphs: Graphs, selection: Selection) -> MultiWalk:
        """Return the algorithm with its rule as used on these graphs.

        Raises
        ------
        ScenarioError
            If walks are not possible on them.
        """
        try:
            return replace(self, rule=self.rule.resolved(graphs))
        except ScenarioError as error:
            raise error.under("rule") from None

    def power(self, weights: Weights, draws_by_size: bool) -> int | None:
        """Return 0 where nodes are visited alike; None where the graph decides."""
        return 0 if isinstance(self.rule, Metropolis) else None

    def init(self, x0: Array) -> State:
        """Return x, the models (R, p) of the walks, u (p,) and the l_r (R, p)."""
        each = np.tile(x0, (self.walks, 1))
        return {"x": x0, "walks": each, "u": x0, "left": each}

    def ask(self, x: Array) -> Ask:
        """Return the request of a visit with a model x (p,)."""
        return Ask("train", send={"x": x}, up={"x": x.size})

    def round(self, state: State) -> Round:
        """Yield the request of a visit; walks go on without a server."""
        yield self.ask(state["x"])
        return state, {}

    def train(self, clients: Clients, x: Array) -> Upload:
        """Client function: local steps from x (p,); the next model (K, p)."""
        local = clients.solve(x)
        return Upload({"x": local.x}, loss=local.loss)

    def visited(self, state: State, walk: int, node: int, model: Array) -> State:
        """Return the state after a visit.

        Parameters
        ----------
        state : mapping of str to array
            As `init` returns it.
        walk, node : int
        model : (p,) array
            Where the local steps ended.
        """
        u, walks, left = state["u"], state["walks"].copy(), state["left"]
        if node == self.home:
            model = u = u + (model - left[walk]) / self.walks
            left = left.copy()
            left[walk] = u
        walks[walk] = model
        return {**state, "x": walks.sum(axis=0) / self.walks, "walks": walks, "u": u, "left": left}
