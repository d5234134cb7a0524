"""CA2FL: FedBuff calibrated by the last update of every client.

Wang, Cao, Wu, Chen, Chen, "Tackling the Data Heterogeneity in Asynchronous Federated Learning with
Cached Update Calibration", ICLR 2024, https://openreview.net/forum?id=4aywmeb97I, Algorithm 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Gt

from rayfed.algorithms import memory
from rayfed.algorithms.asynchronous import Asynchronous
from rayfed.algorithms.base import Aim, Coded, Weights
from rayfed.core.arrays import Array
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import GLOBAL_STEPS, Terms
from rayfed.messages import Ask, Diagnostics, Reply, State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients
    from rayfed.datasets.shards import Shards


@dataclass(frozen=True, kw_only=True)
class CA2FL(Asynchronous):
    """Cache-aided asynchronous federated learning (Wang et al. 2024).

    Client i keeps h_i (p,), the update Delta_i = x_v - x_i of its last task, zero before;
    h = (1/N) sum_j h_j is their mean over all N clients. When `buffer` replies B have arrived the
    server steps v = h + (1/buffer) sum_B (Delta_i - h_i), x <- x - server_lr v, and only then
    h_i <- Delta_i. So slow clients, which reply seldom, count as much as others.

    Parameters
    ----------
    buffer : int
        Replies to an update (the paper's M).
    server_lr : float
        Server step eta.

    Notes
    -----
    It is FedVARP without rounds, and where all clients have the same speed and the buffer holds
    all of them it is FedAvg. Means are plain, so that weights by size are refused.

    Deviations from the paper: the cache of h_j lies with the clients, which send Delta_i - h_i,
    and the server keeps h alone; the sums are the same. A client that replies twice to an update
    has its first Delta_i as h_i the second time. The paper was not at hand; the update is that of
    a public implementation (FLGo's).

    Examples
    --------
    One of two clients moves by 3 and had h = 1 as the other still has: h = 1, v = 1 + (3 - 1) = 3,
    and the new mean is (3 + 1) / 2 = 2.

    >>> from rayfed.testing import answer, reply
    >>> state = {"x": np.array([5.0]), "cache": np.array([1.0])}
    >>> change = reply({"change": [3.0 - 1.0]}, ids=[0], population=2)
    >>> after = answer(CA2FL(buffer=1), state, change).state
    >>> after["x"], after["cache"]
    (array([2.]), array([2.]))
    """

    name: ClassVar[str] = "ca2fl"
    gives: ClassVar[Terms] = Asynchronous.gives | {GLOBAL_STEPS}
    coded: ClassVar[Coded] = {"change": "contractive"}
    aim: ClassVar[Aim] = "plain"

    buffer: Annotated[int, Ge(1)] = 10
    server_lr: Annotated[float, Gt(0)] = 1.0

    @property
    def takes(self) -> int:
        """The size of the buffer."""
        return self.buffer

    def weighed(self, weights: Weights, draws_by_size: bool, shards: Shards, seed: int) -> CA2FL:
        """Refuse weights and selections that count clients by size; the cache does not."""
        memory.refuse_sizes(self)
        if draws_by_size:
            text = f"large clients are drawn more often, but '{self.name}' remembers all alike"
            raise ScenarioError("participation.select", f"{text}; use uniform or all")
        return self

    def init(self, x0: Array) -> State:
        """Return the model (p,) and the mean of the cache (p,), which starts at zero."""
        return {"x": x0, "cache": np.zeros_like(x0)}

    def client_state(self, x0: Array) -> State:
        """Return h_i = 0 (p,)."""
        return {"h": np.zeros_like(x0)}

    def ask(self, state: State) -> Ask:
        """Send x (p,); get Delta_i - h_i (p,)."""
        return Ask("train", send={"x": state["x"]}, up={"change": state["x"].size})

    def train(self, clients: Clients, x: Array) -> Upload:
        """Client function: local steps from x, (p,) or (K, p); upload Delta - h, keep Delta."""
        local = clients.solve(x)
        delta = x - local.x
        change, mirrors = delta - clients.state["h"], {"h": ("change", 1.0)}
        return Upload({"change": change}, {"h": delta}, local.loss, mirrors=mirrors)

    def arrival(self, state: State, reply: Reply) -> tuple[State, Diagnostics]:
        """Server function: the mean change on top of the cache, which takes it up afterwards."""
        h, change = state["cache"], reply.mean["change"]
        x = state["x"] - self.server_lr * (h + change)
        return {"x": x, "cache": h + memory.change(reply)}, {}
