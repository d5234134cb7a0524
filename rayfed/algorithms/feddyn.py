"""FedDyn: every client's objective is bent so that its minimiser is that of the global one.

D. A. E. Acar, Y. Zhao, R. Matas Navarro, M. Mattina, P. N. Whatmough, V. Saligrama, "Federated
Learning Based on Dynamic Regularization", ICLR 2021, https://arxiv.org/abs/2111.04263, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from annotated_types import Gt

from rayfed.algorithms import memory
from rayfed.algorithms.base import Coded, Round
from rayfed.core.arrays import Array, Ints
from rayfed.core.needs import CORRECTIONS, GLOBAL_STEPS, Terms
from rayfed.messages import Ask, State, Upload
from rayfed.problems.base import Batch

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class FedDyn(memory.WithMemory):
    """Federated learning with dynamic regularisation (Acar et al. 2021).

    Client i keeps h_i (p,), the server h (p,), zero at first. With local steps from the broadcast
    model x (p,) a participant minimises F_i(y) - <h_i, y> + alpha/2 ||y - x||^2, uploads its y_i,
    and keeps h_i <- h_i - alpha (y_i - x). With S the participants, N the number of clients and
    w_i the weights of the mean over S, relative to their mean over all N, the server does
    h <- h - alpha (1/N) sum_S w_i (y_i - x), x <- mean_S y_i - h / alpha.

    Parameters
    ----------
    alpha : float
        Weight of the regulariser. A step h / alpha goes along the gradient of F: a small alpha
        moves far and needs local steps that come close to the minimum.

    Notes
    -----
    A model that no longer moves has h_i = grad F_i(x) and h = (1/N) sum_i w_i grad F_i(x) = 0: it
    is stationary for the weighted mean of the F_i, whatever the number and size of the local steps
    and the participation. Running statistics of BatchNorm are no parameters: h_i and h are 0 there.

    Deviations from the paper: none with ``weights: uniform``, which it has. By size client i keeps
    c_i = w_i h_i; where rows arrive, h_i is c_i over the weight of the present round. If large
    clients are drawn more often, the mean over S is plain and h by size, and clients upload two
    vectors.

    Examples
    --------
    One of N = 4 clients moved by 2: h = 0.5 * 2 / 4 = 0.25, and x = (5 - 2) - 0.25 / 0.5.

    >>> from rayfed.messages import Reply
    >>> round = FedDyn(alpha=0.5).round({"x": np.array([5.0]), "h": np.array([0.0])})
    >>> ask = next(round)
    >>> mean = {"delta": np.array([2.0])}
    >>> try:
    ...     round.send(Reply(np.array([3]), np.ones(1), mean, {}, np.ones(1, int), population=4))
    ... except StopIteration as end:
    ...     print(end.value[0]["x"], end.value[0]["h"])
    [2.5] [0.25]
    """

    name: ClassVar[str] = "feddyn"
    needs: ClassVar[Terms] = memory.WithMemory.needs | {CORRECTIONS}
    gives: ClassVar[Terms] = memory.WithMemory.gives | {GLOBAL_STEPS}
    coded: ClassVar[Coded] = {"delta": "any", "moved": "any"}

    alpha: Annotated[float, Gt(0)] = 0.1

    def init(self, x0: Array) -> State:
        """Return the model x (p,) and h = 0 (p,)."""
        return {"x": x0, "h": np.zeros_like(x0)}

    def client_state(self, x0: Array) -> State:
        """Return every client's first c_i = 0 (p,)."""
        return {"h": np.zeros_like(x0)}

    def train(self, clients: Clients, x: Array) -> Upload:
        """Client function: local steps on the bent objective; upload Delta (K, p), keep c_i."""
        problem, shares, c = clients.problem, self.shares(clients), clients.state["h"]
        h, weights = memory.over(shares, c), x.shape[0] - problem.statistics

        def bent(y: Array, batches: Sequence[Batch], index: Ints) -> tuple[Array, Array]:
            loss, g = problem.value_and_gradient(y, batches[0])
            g[:, :weights] -= h[index][:, :weights]
            g[:, :weights] += self.alpha * (y - x)[:, :weights]
            return loss, g

        local = clients.solve(x, gradient=bent, moves=True)
        delta = x - local.x
        moved = memory.times(shares, delta)
        new_state = {"h": c + self.alpha * moved}
        if self._drawn:
            values, mirrors = {"delta": delta, "moved": moved}, {"h": ("moved", self.alpha)}
            return Upload(values, new_state, local.loss, mirrors=mirrors)
        factor = memory.times(shares, np.full((len(clients.ids), 1), self.alpha))
        return Upload({"delta": delta}, new_state, local.loss, mirrors={"h": ("delta", factor)})

    def round(self, state: State) -> Round:
        """Server function: h <- h + alpha/N sum_S w_i Delta_i, x <- x - mean Delta_i - h/alpha."""
        x = state["x"]
        up = {"delta": x.size} | ({"moved": x.size} if self._drawn else {})
        reply = yield Ask("train", send={"x": x}, up=up, plain=("moved",))
        delta = reply.mean["delta"]
        if self._drawn:
            moved = memory.change(reply, "moved")
        else:
            moved = self.total(reply) / reply.population * delta
        h = state["h"] + self.alpha * moved
        return {"x": x - delta - h / self.alpha, "h": h}, {}
