"""SGP: stochastic gradient push, on graphs with links in one direction.

M. Assran, N. Loizou, N. Ballas, M. Rabbat, "Stochastic Gradient Push for Distributed Deep
Learning", ICML 2019, https://arxiv.org/abs/1811.10792, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rayfed.algorithms.gossip import Gossip, mixed
from rayfed.core.arrays import Array
from rayfed.core.errors import ScenarioError
from rayfed.messages import State, Upload
from rayfed.topology.mixing import MixingRule

if TYPE_CHECKING:
    from rayfed.clients import Clients
    from rayfed.selection.base import Selection
    from rayfed.topology import Graphs


@dataclass(frozen=True, kw_only=True)
class SGP(Gossip):
    """Stochastic gradient push: two sums, whose ratio is the model (Assran et al. 2019).

    x_i <- sum_j p_ij (x_j - lr g_j(z_j)), w_i <- sum_j p_ij w_j, z_i = x_i / w_i. A sender chooses
    its weights p_ij alone, 1 / (1 + its receivers), the default of ``mixing``. The model of a node
    is z_i; a message holds x and w.

    Notes
    -----
    Deviations from the paper: a node may take several local steps from z_i, whose change is added.
    Under ``weights: size`` the weights are p_ij n_j / n_i, so that z tends to the mean by size.

    Examples
    --------
    >>> SGP().mixing
    'push'
    """

    name: ClassVar[str] = "sgp"
    pushes: ClassVar[bool] = True

    mixing: MixingRule = "push"

    def on_graphs(self, graphs: Graphs, selection: Selection) -> SGP:
        """Refuse arcs without a way back on a graph that stays: w_i at their senders tends to 0.

        Raises
        ------
        ScenarioError
            If there are such arcs.
        """
        if graphs.fixed and (graph := graphs.at(1).listed()).directed:
            sender, receiver = graph.arcs.T
            part = graph.components()
            for k in np.flatnonzero(part[sender] != part[receiver])[:1]:
                text = f"no arcs lead back to client {sender[k]} from client {receiver[k]}"
                text = f"{text}, so that its sums would vanish"
                raise ScenarioError("", f"{text}; give a way back, or use epidemic")
        return self

    def client_state(self, x0: Array) -> State:
        """Return x_i = x0 (p,) and w_i = 1 (1,)."""
        return {"x": x0, "w": np.ones(1, x0.dtype)}

    def message(self, size: int) -> Mapping[str, int]:
        """Return the lengths of x and w."""
        return {"x": size, "w": 1}

    def step(self, clients: Clients) -> Upload:
        """Client function: local steps from z_i (K, p); send x_i and their change, and w_i."""
        x, w = clients.state["x"], clients.state["w"]
        z = x / w
        local = clients.solve(z)
        return Upload({"x": x + (local.x - z), "w": w[:, 0]}, loss=local.loss)

    def mix(self, clients: Clients, x: Array, w: Array) -> Upload:
        """Client function: take the sums near(x)_i (K, p) and near(w)_i (K,)."""
        return mixed(x, w=w[:, None])

    def models(self, clients: Clients, x: Array) -> Array:
        """Return z_i = x_i / w_i (K, p)."""
        return clients.state["x"] / clients.state["w"]
