"""FedAsync: every reply is mixed into the model as it arrives.

Xie, Koyejo, Gupta, "Asynchronous Federated Optimization", 2019, https://arxiv.org/abs/1903.03934,
Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Interval

from rayfed.algorithms.asynchronous import Discounted
from rayfed.core.arrays import Array
from rayfed.core.columns import Column
from rayfed.core.needs import AVERAGED, VECTORS, Terms
from rayfed.messages import Ask, Diagnostics, Reply, State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class FedAsync(Discounted):
    """Asynchronous federated optimisation (Xie et al. 2019).

    Client i starts from the newest model x_v (p,) and takes its local steps, with ``local.mu``
    under the proximal term mu/2 ||y - x_v||^2. It uploads Delta_i = x_v - x_i. When that arrives,
    the server, which knows x_v, sets x <- (1 - a) x + a x_i with a = mixing s(staleness_i).

    Parameters
    ----------
    mixing : float
        Weight a of a fresh reply (the paper's alpha).

    Notes
    -----
    Deviations from the paper: clients upload the difference in place of the model, so that codecs
    act on that. s is taken of the updates between the start of the task and its arrival, 0 for a
    fresh reply. The paper takes it of t - tau, where t counts the update that the
    reply makes: 1 for a fresh reply, so that it weighs mixing / sqrt(2) with a polynomial of power
    0.5. For its hinge with b give ``after: b - 1``; its polynomial cannot be had. Replies that
    arrive at one time are mixed in one by one, in the order of the clients' ids. ``mixing: 0.6``
    and a polynomial of power 0.5 are the settings of its experiments.

    An update holds one reply, so the server sees single vectors: secure aggregation is impossible.

    Examples
    --------
    >>> import numpy as np
    >>> from rayfed.testing import answer, reply
    >>> late = reply({"delta": [3.0]}, ids=[4], sent={"x": np.array([4.0])})
    >>> after = answer(FedAsync(), {"x": np.array([0.0])}, late)
    >>> after.state["x"], after.diagnostics["mixing"]
    (array([0.6]), 0.6)
    """

    name: ClassVar[str] = "fedasync"
    needs: ClassVar[Terms] = Discounted.needs | {VECTORS}
    gives: ClassVar[Terms] = Discounted.gives | {AVERAGED}
    diagnostics: ClassVar[tuple[Column, ...]] = (
        Column("mixing", about="Weight a of the reply in the new model: mixing s(staleness)."),
    )

    mixing: Annotated[float, Interval(gt=0, le=1)] = 0.6

    def ask(self, state: State) -> Ask:
        """Send x_v (p,); get Delta_i = x_v - x_i (p,)."""
        return Ask("train", send={"x": state["x"]}, up={"delta": state["x"].size}, vectors=True)

    def train(self, clients: Clients, x: Array) -> Upload:
        """Client function: local steps from x, (p,) or (K, p); upload Delta (K, p)."""
        local = clients.solve(x)
        return Upload({"delta": x - local.x}, loss=local.loss)

    def arrival(self, state: State, reply: Reply) -> tuple[State, Diagnostics]:
        """Server function: x <- (1 - a) x + a (x_v - Delta_i); reply.mean holds s Delta_i."""
        x, x_v = state["x"], reply.sent["x"]
        a = self.mixing * float(self.discount(reply.staleness).mean())
        return {"x": (1 - a) * x + a * x_v - self.mixing * reply.mean["delta"]}, {"mixing": a}
