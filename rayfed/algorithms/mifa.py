"""MIFA: the server goes along the last updates of all clients, those that are away included.

Gu, Huang, Zhang, Huang, "Fast Federated Learning in the Presence of Arbitrary Device
Unavailability", NeurIPS 2021, https://arxiv.org/abs/2106.04159, Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from annotated_types import Gt

from rayfed.algorithms import memory
from rayfed.algorithms.base import Coded, Round
from rayfed.core.arrays import Array
from rayfed.messages import Ask, State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class MIFA(memory.Remembering):
    """Memory-augmented impatient federated averaging (Gu et al. 2021).

    Client i keeps G_i (p,), the change Delta_i = x - x_i of the last round that it took part in,
    zero before. With w_i the weights of the mean the server steps
    x <- x - server_lr sum_j w_j G_j / sum_j w_j over all N clients, with the G_i of this round for
    those who take part. It waits for nobody and knows no probability of taking part.

    Parameters
    ----------
    server_lr : float
        Server step.

    Notes
    -----
    Where everyone takes part it is FedAvg. The w_i are sizes, or 1 for all with ``weights:
    uniform`` (the paper's); how often a client is drawn does not matter.

    Deviations from the paper: every client takes part in its first round; here G_i = 0 until a
    client has taken part, so the first steps are short. The table of G_j lives beside the clients,
    which send Delta_i - G_i, and the server keeps the mean alone; the sums are the same. Where the
    local learning rate changes over rounds, G_j is kept for that of round 1 and stretched.

    Examples
    --------
    One of two clients takes part and moves by 3, where it had moved by 1, as the other still has:

    >>> from rayfed.testing import answer, reply
    >>> state = {"x": np.array([5.0]), "memory": np.array([1.0])}
    >>> change = reply({"change": [3.0 - 1.0]}, ids=[0], population=2)
    >>> answer(MIFA(), state, change).state["x"]
    array([3.])
    """

    name: ClassVar[str] = "mifa"
    coded: ClassVar[Coded] = {"change": "contractive"}

    server_lr: Annotated[float, Gt(0)] = 1.0

    def init(self, x0: Array) -> State:
        """Return the model (p,) and the mean of the memory (p,), which starts at zero."""
        return {"x": x0, "memory": np.zeros_like(x0)}

    def client_state(self, x0: Array) -> State:
        """Return G_i = 0 (p,)."""
        return {"g": np.zeros_like(x0), **self._weighing.first()}

    def train(self, clients: Clients, x: Array) -> Upload:
        """Client function: local steps from x (p,); upload w_i (Delta_i - G_i), keep Delta_i."""
        local = clients.solve(x)
        g = (x - local.x) / memory.scale(self.local, clients.round)
        old = self._weighing.remembered(clients, clients.state["g"])
        change = self._weighing.times(clients, g - old)
        kept = {"g": g, **self._weighing.kept(clients)}
        mirrors = {"g": ("change", 1 / self._weighing.shares(clients)[:, None])}
        return Upload({"change": change}, kept, local.loss, mirrors=mirrors)

    def round(self, state: State) -> Round:
        """Server function: take up what changed in the memory, and step along it."""
        x = state["x"]
        ask = Ask("train", send={"x": x}, up={"change": x.size}, plain=("change",))
        reply = yield ask
        mean = state["memory"] + len(reply.ids) / reply.population * reply.mean["change"]
        step = self.server_lr * memory.scale(self.local, reply.round)
        return {"x": x - step * self._weighing.present(mean, reply.growth), "memory": mean}, {}
