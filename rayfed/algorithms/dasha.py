"""DASHA: compressed changes with momentum, and never a full gradient after the first.

Tyurin, Richtarik, "DASHA: Distributed Nonconvex Optimization with Communication Compression,
Optimal Oracle Complexity, and No Client Synchronization", ICLR 2023,
https://arxiv.org/abs/2202.01268, Algorithm 1 (gradient setting).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from annotated_types import Interval

from rayfed.algorithms.base import Round
from rayfed.algorithms.compressed import Compressed, all_replied, gradient
from rayfed.core.arrays import Array, to_numpy
from rayfed.messages import State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class Dasha(Compressed):
    """DASHA (Tyurin and Richtarik 2023).

    Client i keeps h_i = grad F_i at the last model and g_i (p,), both grad F_i(x) after the first
    round, in which it is sent as it is. Later it sends m_i = C(grad F_i(x) - h_i - a (g_i - h_i))
    and keeps g_i <- g_i + m_i. The server's g is the mean of the g_i, and x <- x - lr g.

    Parameters
    ----------
    a : float, optional
        Momentum; 1 / (2 omega + 1), the paper's choice for the variance omega of the codec, if
        None.

    Notes
    -----
    Deviations from the paper: none.

    Examples
    --------
    >>> from rayfed.messages import Reply
    >>> algorithm = Dasha(lr=0.5)
    >>> state = {"x": np.array([3.0]), "g": np.array([1.0]), "t": np.array([4])}
    >>> round = algorithm.round(state)
    >>> ask = next(round)
    >>> reply = Reply(np.arange(2), np.ones(2), {"change": np.array([1.0])}, {}, np.ones(2, int), 2)
    >>> try:
    ...     round.send(reply)
    ... except StopIteration as end:
    ...     print(ask.function, end.value[0]["x"], end.value[0]["g"])
    change [2.] [2.]
    """

    name: ClassVar[str] = "dasha"

    a: Annotated[float, Interval(gt=0, le=1)] | None = None

    def init(self, x0: Array) -> State:
        """Return x and g (p,), and the number of rounds."""
        return {"x": x0, "g": np.zeros_like(x0), "t": np.zeros(1, dtype=np.int64)}

    def client_state(self, x0: Array) -> State:
        """Return h_i and g_i (p,)."""
        return {"h": np.zeros_like(x0), "g": np.zeros_like(x0)}

    def full_gradient(self, clients: Clients, x: Array) -> Upload:
        """Client function of the first round: grad F_i(x), (K, p)."""
        g = gradient(clients, x)
        return Upload({"change": g}, state={"h": g, "g": g})

    def change(self, clients: Clients, x: Array) -> Upload:
        """Client function: m_i = C(grad F_i(x) - h_i - a (g_i - h_i)), (K, p)."""
        h, g = (to_numpy(clients.state[name]) for name in ("h", "g"))
        a = 1 / (2 * self.omega(clients.p) + 1) if self.a is None else self.a
        new = gradient(clients, x)
        m = self.compressed(clients, new - h - h.dtype.type(a) * (g - h))
        return Upload({"change": m}, state={"h": new, "g": g + m})

    def round(self, state: State) -> Round:
        """Server function: g <- g + mean m_i; x <- x - lr g."""
        x, full = state["x"], not state["t"][0]
        reply = yield self.ask(x, "full_gradient" if full else "change", {"x": x}, full)
        all_replied(reply, self.name)
        g = state["g"] + reply.mean["change"]
        return {"x": x - self.lr * g, "g": g, "t": state["t"] + 1}, {}
