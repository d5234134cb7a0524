"""Asynchronous SGD with steps that adapt to delays: old gradients count less, or not at all.

Koloskova, Stich, Jaggi, "Sharper Convergence Guarantees for Asynchronous SGD for Distributed and
Federated Learning", NeurIPS 2022, https://arxiv.org/abs/2206.08307, Algorithm 1 with the steps of
Theorem 8, equation (11). Mishchenko, Bach, Even, Woodworth, "Asynchronous SGD Beats Minibatch SGD
Under Arbitrary Delays", NeurIPS 2022, https://arxiv.org/abs/2206.07638, has steps of that kind too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from annotated_types import Gt

from rayfed.algorithms.asynchronous import Asynchronous
from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.columns import Column
from rayfed.core.needs import VECTORS, Terms
from rayfed.messages import Ask, Diagnostics, Reply, State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class AsyncSGD(Asynchronous):
    """Asynchronous SGD with delay-adaptive steps (Koloskova et al. 2022).

    Client i takes its local steps from the newest model x_v (p,) and uploads
    Delta_i = x_v - x_i, with one local step eta times a stochastic gradient. When it arrives, tau
    updates later, the server sets x <- x - s(tau) Delta_i. With C = `concurrency`, s(tau) is 1 for
    tau <= C; beyond that it is min(1, 1 / (4 L eta tau)), or 0 if `smoothness` L is not given.

    Parameters
    ----------
    smoothness : float, optional
        L, the largest Lipschitz constant of the clients' gradients. Without it gradients older
        than C are dropped, which the theorem allows as well.

    Notes
    -----
    eta is ``local.lr``, of the first round and of clients in no group. ``local: {steps: 1}`` is
    the paper's method; the theorem does not cover more steps.

    Deviations from the paper: none with one local step. The theorem asks for steps strictly below
    min(eta, 1 / (4 L tau)) beyond C; the bound itself is taken.

    An update holds one reply, so the server sees single vectors: secure aggregation is impossible.

    Examples
    --------
    A gradient that is 6 updates old, with 5 busy clients:

    >>> import numpy as np
    >>> from rayfed.solvers import SGD
    >>> method = AsyncSGD(concurrency=5, smoothness=2.0, local=SGD(steps=1, lr=0.1))
    >>> method.discount(np.array([0, 5, 6])).round(6)
    array([1.      , 1.      , 0.208333])
    >>> AsyncSGD(concurrency=5).discount(np.array([0, 5, 6]))
    array([1., 1., 0.])
    """

    name: ClassVar[str] = "async-sgd"
    needs: ClassVar[Terms] = Asynchronous.needs | {VECTORS}
    diagnostics: ClassVar[tuple[Column, ...]] = (
        Column("step", about="Factor s of the update: 1, or less for an old gradient."),
    )

    smoothness: Annotated[float, Gt(0)] | None = None

    def discount(self, staleness: Ints) -> Floats:
        """Return s (K,), the step over eta, for gradients so many updates old."""
        within = staleness <= (np.inf if self.concurrency is None else self.concurrency)
        if self.smoothness is None:
            return within.astype(np.float64)
        bound = 4 * self.smoothness * self.local.rate(1) * np.maximum(staleness, 1)
        return np.where(within, 1.0, np.minimum(1.0, 1.0 / bound))

    def ask(self, state: State) -> Ask:
        """Send x (p,); get Delta_i (p,)."""
        return Ask("train", send={"x": state["x"]}, up={"delta": state["x"].size}, vectors=True)

    def train(self, clients: Clients, x: Array) -> Upload:
        """Client function: local steps from x, (p,) or (K, p); upload Delta (K, p)."""
        local = clients.solve(x)
        return Upload({"delta": x - local.x}, loss=local.loss)

    def arrival(self, state: State, reply: Reply) -> tuple[State, Diagnostics]:
        """Server function: x <- x - s Delta_i; reply.mean holds s Delta_i."""
        step = float(self.discount(reply.staleness).mean()) if len(reply.staleness) else 1.0
        return {"x": state["x"] - reply.mean["delta"]}, {"step": step}
