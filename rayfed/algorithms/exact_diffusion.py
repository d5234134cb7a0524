"""Exact diffusion: diffusion with a correction that removes its bias.

K. Yuan, B. Ying, X. Zhao, A. H. Sayed, "Exact Diffusion for Distributed Optimization and Learning,
Part I", IEEE Transactions on Signal Processing 2018, https://arxiv.org/abs/1702.05122, Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rayfed.algorithms.gossip import mixed
from rayfed.algorithms.tracking import FullGradientGossip
from rayfed.core.arrays import Array
from rayfed.messages import State, Upload
from rayfed.topology.mixing import MixingRule

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class ExactDiffusion(FullGradientGossip):
    """Adapt, correct, combine: psi = x - lr g(x), near(psi + x - last psi) (Yuan et al. 2018).

    near is the mean by (I + W) / 2, the default of ``mixing``.

    Notes
    -----
    It is proved for fixed graphs. Deviations from the paper: none.

    Examples
    --------
    >>> ExactDiffusion().mixing
    'lazy'
    """

    name: ClassVar[str] = "exact-diffusion"

    mixing: MixingRule = "lazy"

    def client_state(self, x0: Array) -> State:
        """Return x_i = psi_i = x0 (p,), so that the first step has no correction."""
        return {"x": x0, "psi": x0}

    def step(self, clients: Clients) -> Upload:
        """Client function: send psi_i + x_i - last psi_i (K, p)."""
        x, last = clients.state["x"], clients.state["psi"]
        psi = x - self.lr * clients.gradient(x)
        return Upload({"x": psi + x - last}, state={"psi": psi})

    def mix(self, clients: Clients, x: Array) -> Upload:
        """Client function: take near(x)_i (K, p)."""
        return mixed(x)
