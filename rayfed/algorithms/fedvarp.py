"""FedVARP: FedAvg with the last updates of all clients as a control variate.

Jhunjhunwala, Sharma, Nagarkatti, Joshi, "FedVARP: Tackling the Variance Due to Partial Client
Participation in Federated Learning", UAI 2022, https://arxiv.org/abs/2207.14130, Algorithm 1.
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
class FedVARP(memory.WithMemory):
    """FedAvg without the variance of partial participation (Jhunjhunwala et al. 2022).

    Client i has y_i (p,), the pseudo-gradient Delta_i = x - x_i of the last round that it took part
    in, zero before. With w_i the weights of the mean over participants S, a round is
    v = sum_S w_i (Delta_i - y_i) / sum_S w_i + sum_j w_j y_j / sum_j w_j over all N clients j,
    x <- x - server_lr v, and only then y_i <- Delta_i.

    Parameters
    ----------
    server_lr : float
        Server step eta_g.

    Notes
    -----
    With full participation it is FedAvg. The w_i are sizes, as in FedAvg, or 1 with
    ``weights: uniform``. If large clients are drawn more often, the first mean is plain and the
    second by size, so that both have the same expectation; clients then upload two vectors.

    The paper has constant learning rates and numbers of local steps. Where they change, y_i is
    still the update as it was: after a step of the learning rate, v is too long until all clients
    have taken part again, and drawn numbers of steps add variance.

    Deviations from the paper: none with ``weights: uniform``, which it has. The table lies with the
    clients: client i keeps c_i = w_i y_i and sends w_i Delta_i - c_i; the server keeps the mean of
    the c_i. Where rows arrive, c_i has the weight of the round in which it was sent.

    Examples
    --------
    One of two clients takes part, moves by 3, and had y = 1 as the other still has: ybar = 1,
    v = (3 - 1) + 1 = 3, and the new memory is (3 + 1) / 2 = 2.

    >>> from rayfed.testing import answer, reply
    >>> state = {"x": np.array([5.0]), "memory": np.array([1.0])}
    >>> change = reply({"change": [3.0 - 1.0]}, ids=[0], population=2)
    >>> answer(FedVARP(), state, change).state
    {'x': array([2.]), 'memory': array([2.])}
    """

    name: ClassVar[str] = "fedvarp"
    gives: ClassVar[Terms] = memory.WithMemory.gives | {GLOBAL_STEPS}
    coded: ClassVar[Coded] = {"change": "contractive", "direction": "contractive"}

    server_lr: Annotated[float, Gt(0)] = 1.0

    def init(self, x0: Array) -> State:
        """Return the model (p,) and the memory (p,), which starts at zero."""
        return {"x": x0, "memory": np.zeros_like(x0)}

    def client_state(self, x0: Array) -> State:
        """Return c_i = 0 (p,), which keeps the first v unbiased."""
        return {"y": np.zeros_like(x0)}

    def train(self, clients: Clients, x: Array) -> Upload:
        """Client function: local steps from x (p,); upload and keep w_i Delta_i (K, p)."""
        local, shares = clients.solve(x), self.shares(clients)
        c = memory.times(shares, x - local.x)
        change = c - clients.state["y"]
        values = {"change": change}
        if self._drawn:
            values["direction"] = memory.over(shares, change)
        return Upload(values, {"y": c}, loss=local.loss, mirrors={"y": ("change", 1.0)})

    def round(self, state: State) -> Round:
        """Server function: the mean change on top of the memory, which takes it up afterwards."""
        x, ybar = state["x"], state["memory"]
        up = {"change": x.size} | ({"direction": x.size} if self._drawn else {})
        reply = yield Ask("train", send={"x": x}, up=up, plain=("change",))
        if self._drawn:
            v = reply.mean["direction"] + ybar
        else:
            v = len(reply.ids) / self.total(reply) * reply.mean["change"] + ybar
        return {"x": x - self.server_lr * v, "memory": ybar + memory.change(reply)}, {}
