"""CHOCO-SGD: gossip with coded differences from estimates that neighbours share.

A. Koloskova, S. U. Stich, M. Jaggi, "Decentralized Stochastic Optimization and Gossip Algorithms
with Compressed Communication", ICML 2019, https://arxiv.org/abs/1902.00340, Algorithm 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Gt, Le

from rayfed.algorithms.base import Coded
from rayfed.algorithms.gossip import Gossip, mixed
from rayfed.core.arrays import Array
from rayfed.core.needs import FIXED_GRAPH, Terms
from rayfed.messages import State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class ChocoSGD(Gossip):
    """CHOCO-SGD: quantise, then mix estimates (Koloskova et al. 2019, Algorithm 2).

    x_i <- x_i - lr g_i(x_i), q_i = Q(x_i - e_i), e_i <- e_i + q_i, x_i <- x_i + gamma (near(e)_i -
    e_i), where neighbours share the estimates e_i, which begin at 0. Q is the codec of the
    ``uplink``; without one, and with gamma = 1, it is ``dfedavg``.

    Parameters
    ----------
    gamma : float
        Step towards the neighbours' estimates; the coarser the codec, the smaller it must be.

    Notes
    -----
    Q is contractive, as in Assumption 1: else the estimates depart, however small gamma is.
    Instead of all neighbours' estimates a node keeps near(e)_i, to which it adds near(q)_i; the
    graph must not change for that. Deviations from the paper: a node may take several local steps.

    Examples
    --------
    >>> ChocoSGD(gamma=0.1).message(3)
    {'q': 3}
    """

    name: ClassVar[str] = "choco-sgd"
    needs: ClassVar[Terms] = Gossip.needs | {FIXED_GRAPH}
    coded: ClassVar[Coded | None] = {"q": "contractive"}

    gamma: Annotated[float, Gt(0), Le(1)] = 0.5

    def client_state(self, x0: Array) -> State:
        """Return x_i = x0 (p,), and zeros for e_i and near(e)_i."""
        return {"x": x0, "estimate": 0 * x0, "near": 0 * x0}

    def message(self, size: int) -> Mapping[str, int]:
        """Return the length of q."""
        return {"q": size}

    def step(self, clients: Clients) -> Upload:
        """Client function: local steps from x_i; send x_i - e_i (K, p), add Q of it to e_i."""
        local, estimate = clients.solve(clients.state["x"]), clients.state["estimate"]
        q = local.x - estimate
        state, coded = {"x": local.x, "estimate": estimate + q}, {"estimate": ("q", 1.0)}
        return Upload({"q": q}, state=state, loss=local.loss, mirrors=coded)

    def mix(self, clients: Clients, q: Array) -> Upload:
        """Client function: add near(q)_i (K, p) to near(e)_i; step towards it from e_i."""
        state = clients.state
        near = state["near"] + q
        return mixed(state["x"] + self.gamma * (near - state["estimate"]), near=near)
