"""DFedAvg: local steps, then the mean over neighbours.

T. Sun, D. Li, B. Wang, "Decentralized Federated Averaging", IEEE TPAMI 2023,
https://arxiv.org/abs/2104.11375.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rayfed.algorithms.base import Coded
from rayfed.algorithms.gossip import Gossip, mixed
from rayfed.core.arrays import Array
from rayfed.core.needs import EVERYONE, Terms
from rayfed.messages import State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class DFedAvg(Gossip):
    """Decentralised FedAvg: x_i <- near(x after local steps)_i (Sun et al. 2023).

    With ``local: {momentum: 0.9}`` it is the paper's DFedAvgM, with momentum that begins at zero in
    every step; with one local step it is D-PSGD in its step-first form, also called diffusion. On
    the complete graph it equals FedAvg with all clients.

    Notes
    -----
    With a codec Q neighbours mix what they decode: x_i <- x_i + near(Q(x))_i - Q(x_i) with x after
    local steps, which keeps the mean (Koloskova, Stich, Jaggi, ICML 2019, Q2-G).

    Deviations from the paper: none; its quantised variant is left out.

    Examples
    --------
    >>> DFedAvg().overlap
    False
    """

    name: ClassVar[str] = "dfedavg"
    needs: ClassVar[Terms] = Gossip.needs - {EVERYONE}
    coded: ClassVar[Coded | None] = {"x": "any"}

    def client_state(self, x0: Array) -> State:
        """Return x_i = x0 (p,), and the error of the last message that neighbours decoded."""
        return {"x": x0, "error": 0 * x0}

    def step(self, clients: Clients) -> Upload:
        """Client function: local steps from x_i; send the model (K, p) after them."""
        local = clients.solve(clients.state["x"])
        exact, coded = {"error": 0 * local.x}, {"error": ("x", 1.0)}
        return Upload({"x": local.x}, state=exact, loss=local.loss, mirrors=coded)

    def mix(self, clients: Clients, x: Array) -> Upload:
        """Client function: take near(x)_i (K, p), less the error of one's own message."""
        return mixed(x - clients.state["error"])
