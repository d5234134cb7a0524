"""EXTRA: an exact first-order method for decentralised consensus optimisation.

W. Shi, Q. Ling, G. Wu, W. Yin, "EXTRA: An Exact First-Order Algorithm for Decentralized Consensus
Optimization", SIAM Journal on Optimization 2015, https://arxiv.org/abs/1404.6264, Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rayfed.algorithms.gossip import mixed
from rayfed.algorithms.tracking import FullGradientGossip
from rayfed.core.arrays import Array
from rayfed.messages import State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class Extra(FullGradientGossip):
    """Exact gradient method with the matrices W and (I + W) / 2 (Shi et al. 2015, Algorithm 1).

    x'' = x' + near(x') - (x + near(x)) / 2 - lr (g(x') - g(x)), and near(x) - lr g(x) at first.
    Messages do not depend on the gradient, so they travel while nodes compute.

    Notes
    -----
    It is proved for fixed graphs. Deviations from the paper: none.

    Examples
    --------
    >>> Extra().overlap
    True
    """

    name: ClassVar[str] = "extra"
    overlap: ClassVar[bool] = True

    def client_state(self, x0: Array) -> State:
        """Return x_i = x0 (p,); last values for which the first step is near(x) - lr g(x)."""
        return {"x": x0, "last": x0, "near": x0, "gradient": 0 * x0, "change": 0 * x0}

    def step(self, clients: Clients) -> Upload:
        """Client function: send x_i (K, p), and keep -lr (g_i(x_i) - last g_i)."""
        state = clients.state
        g = clients.gradient(state["x"])
        change = -self.lr * (g - state["gradient"])
        return Upload({"x": state["x"]}, state={"gradient": g, "change": change})

    def mix(self, clients: Clients, x: Array) -> Upload:
        """Client function: the next x_i from near(x)_i (K, p) and the values of the last step."""
        state = clients.state
        before = 0.5 * (state["last"] + state["near"])
        return mixed(state["x"] + x - before + state["change"], last=state["x"], near=x)
