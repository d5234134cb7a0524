"""DIGing: gradient tracking, also known as DSGT.

A. Nedic, A. Olshevsky, W. Shi, "Achieving Geometric Convergence for Distributed Optimization over
Time-Varying Graphs", SIAM Journal on Optimization 2017, https://arxiv.org/abs/1607.03218,
Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rayfed.algorithms.gossip import mixed
from rayfed.algorithms.tracking import FullGradientGossip
from rayfed.core.arrays import Array
from rayfed.messages import State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class DIGing(FullGradientGossip):
    """Gradient tracking: y_i follows the mean gradient (Nedic et al. 2017, Algorithm 1).

    x_i <- near(x)_i - lr y_i, then y_i <- near(y)_i + g_i(new x) - g_i(old x), with y_i = g_i at
    first. It is exact on fixed and on changing graphs. A message holds two vectors.

    Notes
    -----
    Deviations from the paper: none.

    Examples
    --------
    >>> DIGing().message(3)
    {'x': 3, 'y': 3}
    """

    name: ClassVar[str] = "diging"

    def client_state(self, x0: Array) -> State:
        """Return x_i = x0 (p,), and zeros for y_i, near(y)_i and the last gradient."""
        return {"x": x0, "y": 0 * x0, "near_y": 0 * x0, "gradient": 0 * x0}

    def message(self, size: int) -> Mapping[str, int]:
        """Return the lengths of x and y."""
        return {"x": size, "y": size}

    def step(self, clients: Clients) -> Upload:
        """Client function: y_i <- near(y)_i + g_i(x_i) - last g_i; send x_i and y_i (K, p)."""
        state = clients.state
        g = clients.gradient(state["x"])
        y = state["near_y"] + g - state["gradient"]
        return Upload({"x": state["x"], "y": y}, state={"y": y, "gradient": g})

    def mix(self, clients: Clients, x: Array, y: Array) -> Upload:
        """Client function: x_i <- near(x)_i - lr y_i; keep near(y)_i (K, p)."""
        return mixed(x - self.lr * clients.state["y"], near_y=y)
