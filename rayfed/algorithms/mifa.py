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
from rayfed.core.needs import GLOBAL_STEPS, Terms
from rayfed.messages import Ask, State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class MIFA(memory.WithMemory):
    """Memory-augmented impatient federated averaging (Gu et al. 2021).

    Client i has G_i = (x - x_i) / lr of the last round that it took part in, with the learning rate
    of that round, zero before. With w_i the weights of the mean the server steps
    x <- x - server_lr lr sum_j w_j G_j / sum_j w_j over all N clients, with the new G_i of those
    who take part. It waits for no client and needs no probabilities of participation.

    Parameters
    ----------
    server_lr : float
        Server step.

    Notes
    -----
    With full participation it is FedAvg. The w_i are sizes, or 1 for all with ``weights:
    uniform`` (the paper's); how often a client is drawn does not matter.

    Deviations from the paper: every client takes part in its first round; here G_i = 0 until a
    client has taken part, so the first steps are short. Learning rates are relative to that of
    round 1. The table lies with the clients: client i keeps c_i = w_i G_i and sends its change, the
    server keeps the mean of the c_i.

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
    gives: ClassVar[Terms] = memory.WithMemory.gives | {GLOBAL_STEPS}
    coded: ClassVar[Coded] = {"change": "contractive"}

    server_lr: Annotated[float, Gt(0)] = 1.0

    def init(self, x0: Array) -> State:
        """Return the model (p,) and the mean of the memory (p,), which starts at zero."""
        return {"x": x0, "memory": np.zeros_like(x0)}

    def client_state(self, x0: Array) -> State:
        """Return c_i = 0 (p,)."""
        return {"g": np.zeros_like(x0)}

    def train(self, clients: Clients, x: Array) -> Upload:
        """Client function: local steps from x (p,); keep w_i G_i (K, p), upload its change."""
        local = clients.solve(x)
        c = memory.times(self.shares(clients), (x - local.x) / self._rate(clients.round))
        mirrors = {"g": ("change", 1.0)}
        return Upload({"change": c - clients.state["g"]}, {"g": c}, local.loss, mirrors=mirrors)

    def round(self, state: State) -> Round:
        """Server function: add the change to the memory, and step along it."""
        x = state["x"]
        reply = yield Ask("train", send={"x": x}, up={"change": x.size}, plain=("change",))
        mean = state["memory"] + memory.change(reply)
        return {"x": x - self.server_lr * self._rate(reply.round) * mean, "memory": mean}, {}

    def _rate(self, round: int) -> float:
        """Return the learning rate of a round, relative to that of round 1.

        It is that of the algorithm's own solver; groups of clients may have others.
        """
        return self.local.rate(round) / self.local.rate(1)
