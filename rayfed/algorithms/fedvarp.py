"""FedVARP: the server adds what it remembers of the clients that did not take part.

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
from rayfed.messages import Ask, State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class FedVARP(memory.Remembering):
    """FedAvg without the variance of partial participation (Jhunjhunwala et al. 2022).

    Client i keeps y_i (p,), the pseudo-gradient Delta_i = x - x_i of the last round that it took
    part in, zero before. With w_i the weights of the mean and the memory
    ybar = sum_j w_j y_j / sum_j w_j over all N clients a round is
    v = sum_i w_i (Delta_i - y_i) / sum_i w_i + ybar over the participants i,
    x <- x - server_lr v, and only then y_i <- Delta_i.

    Parameters
    ----------
    server_lr : float
        Server step eta_g.

    Notes
    -----
    Where everyone takes part it is FedAvg. The w_i are sizes, as FedAvg's are, or 1 for all with
    ``weights: uniform``. If large clients are drawn more often, the cohort's mean is plain and
    the memory's by size, so that both have the same expectation; clients upload two vectors then.

    Deviations from the paper: it has w_i = 1. The table of y_j lives beside the clients, which send
    Delta_i - y_i, and the server keeps ybar alone; the sums are the same. The paper has a constant
    local step. Where it changes, y_j is kept for the learning rate of round 1: with s the rate of
    the round over that, v = mean_i (Delta_i - s y_i) + s ybar. Where the number of local steps is
    drawn, and a client runs k times its mean, it sends Delta_i - s k y_i and y_i becomes
    (1 - k) y_i + Delta_i / s: v stays unbiased, since k is 1 on average, and what steps more or
    fewer add to Delta_i is taken away again.

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
    coded: ClassVar[Coded] = {"change": "contractive", "kept": "contractive"}

    server_lr: Annotated[float, Gt(0)] = 1.0

    def init(self, x0: Array) -> State:
        """Return the model (p,) and the memory (p,), which starts at zero."""
        return {"x": x0, "memory": np.zeros_like(x0)}

    def client_state(self, x0: Array) -> State:
        """Return y_i = 0 (p,), which keeps the first v unbiased."""
        return {"y": np.zeros_like(x0), **self._weighing.first()}

    def train(self, clients: Clients, x: Array) -> Upload:
        """Client function: local steps from x (p,); upload Delta - y (K, p), keep Delta as y."""
        y = memory.Stretched(clients, self.local, self._weighing)
        local = clients.solve(x)
        delta = x - local.x
        sent, kept = y.sent(delta - y.now), y.kept(delta)
        return Upload(sent, kept, loss=local.loss, mirrors=y.mirrors)

    def round(self, state: State) -> Round:
        """Server function: the mean change on top of the memory, which takes it up afterwards."""
        x, ybar, weighing = state["x"], state["memory"], self._weighing
        up, plain = weighing.uploads(x.size)
        reply = yield Ask("train", send={"x": x}, up=up, plain=plain)
        s = memory.scale(self.local, reply.round)
        v = reply.mean["change"] + s * weighing.present(ybar, reply.growth)
        after = ybar + weighing.mean_change(reply, s)
        return {"x": x - self.server_lr * v, "memory": after}, {}
