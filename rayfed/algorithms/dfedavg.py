"""DFedAvg: local steps, then the mean over neighbours.

T. Sun, D. Li, B. Wang, "Decentralized Federated Averaging", IEEE TPAMI 2023,
https://arxiv.org/abs/2104.11375, Algorithms 1 and 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rayfed.algorithms.gossip import Gossip, mixed
from rayfed.core.arrays import Array
from rayfed.messages import Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class DFedAvg(Gossip):
    """Decentralised FedAvg: x_i <- near(x after local steps)_i (Sun et al. 2023, Algorithm 1).

    With ``local: {momentum: 0.9}`` it is DFedAvgM (Algorithm 2), whose momentum begins at zero in
    every step; with one local step it is D-PSGD in its step-first form, also called diffusion. On
    the complete graph it equals FedAvg with all clients.

    Notes
    -----
    Deviations from the paper: none; the quantised variant is left out.

    Examples
    --------
    >>> DFedAvg().overlap
    False
    """

    name: ClassVar[str] = "dfedavg"

    def step(self, clients: Clients) -> Upload:
        """Client function: local steps from x_i; send the model (K, p) after them."""
        local = clients.solve(clients.state["x"])
        return Upload({"x": local.x}, loss=local.loss)

    def mix(self, clients: Clients, x: Array) -> Upload:
        """Client function: take near(x)_i (K, p)."""
        return mixed(x)
