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

from rayfed.algorithms.base import Coded, Round
from rayfed.algorithms.memory import Remembering
from rayfed.core.arrays import Array, Ints
from rayfed.messages import Ask, State, Upload
from rayfed.problems.base import Batch

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class FedDyn(Remembering):
    """Federated learning with dynamic regularisation (Acar et al. 2021).

    Client i keeps h_i (p,), the server h (p,), zero at first. With local steps from the broadcast
    model x (p,) a participant minimises F_i(y) - <h_i, y> + alpha/2 ||y - x||^2, uploads its y_i,
    and keeps h_i <- h_i - alpha (y_i - x). With S the participants, N the number of clients and
    r_i the weight of client i relative to the mean weight, 1 where all weigh the same, the server
    does h <- h - alpha (1/N) sum_S r_i (y_i - x), x <- mean_S y_i - h / alpha.

    The mean over S is by size unless ``weights: uniform``; it is plain in the paper.

    Parameters
    ----------
    alpha : float
        Weight of the regulariser. A step h / alpha goes along the gradient of F: a small alpha
        moves far and needs local steps that come close to the minimum.

    Notes
    -----
    A model that no longer moves has h_i = grad F_i(x) and h = sum_i w_i grad F_i(x) = 0 with the
    weights w_i of the mean: it is stationary for the mean of the F_i, whatever the number and size
    of the local steps and whoever takes part.

    Deviations from the paper: all r_i are 1 there. Clients upload x - y_i. The server needs it in
    two sums, the mean over the participants and that of r_i (y_i - x). At the defaults one vector
    and the scalar r_i are uploaded; two vectors where large clients are drawn more often, or where
    rows arrive, so that the r_i change.

    Examples
    --------
    One of N = 4 clients moved by 2: h = 0.5 * 2 / 4 = 0.25, and x = (5 - 2) - 0.25 / 0.5.

    >>> from rayfed.messages import Reply
    >>> round = FedDyn(alpha=0.5).round({"x": np.array([5.0]), "h": np.array([0.0])})
    >>> ask = next(round)
    >>> mean, each = {"delta": np.array([2.0])}, {"share": np.ones(1)}
    >>> try:
    ...     round.send(Reply(np.array([3]), np.ones(1), mean, each, np.ones(1, int), population=4))
    ... except StopIteration as end:
    ...     print(end.value[0]["x"], end.value[0]["h"])
    [2.5] [0.25]
    """

    name: ClassVar[str] = "feddyn"
    coded: ClassVar[Coded] = {"delta": "any", "shared": "any"}

    alpha: Annotated[float, Gt(0)] = 0.1

    @property
    def _apart(self) -> bool:
        """Whether one sum will not do."""
        return self._weighing.drawn or self._weighing.changes

    def init(self, x0: Array) -> State:
        """Return the model x (p,) and h = 0 (p,)."""
        return {"x": x0, "h": np.zeros_like(x0)}

    def client_state(self, x0: Array) -> State:
        """Return every client's first h_i = 0 (p,)."""
        return {"h": np.zeros_like(x0), **self._weighing.first()}

    def train(self, clients: Clients, x: Array) -> Upload:
        """Client function: local steps on the bent objective; upload Delta (K, p), keep h_i."""
        problem, h = clients.problem, clients.state["h"]

        def bent(y: Array, batches: Sequence[Batch], who: Ints) -> tuple[Array, Array]:
            loss, g = problem.value_and_gradient(y, batches[0])
            g -= h[who]
            g += self.alpha * (y - x)
            return loss, g

        local = clients.solve(x, gradient=bent)
        delta, weighing = x - local.x, self._weighing
        if self._apart:
            moved = delta + (h - weighing.remembered(clients, h)) / self.alpha
            values = {"delta": delta, "shared": weighing.times(clients, moved)}
            name, factor = "shared", self.alpha / weighing.shares(clients)[:, None]
        else:
            values = {"delta": delta, "share": weighing.shares(clients)}
            name, factor = "delta", np.full((len(clients.ids), 1), self.alpha)
        kept = {"h": h + self.alpha * delta, **weighing.kept(clients)}
        return Upload(values, kept, local.loss, mirrors={"h": (name, factor)})

    def round(self, state: State) -> Round:
        """Server function: h <- h + alpha/N sum_S r_i Delta_i, x <- x - mean Delta_i - h/alpha."""
        x, p = state["x"], state["x"].size
        up = {"delta": p, "shared": p} if self._apart else {"delta": p, "share": 1}
        reply = yield Ask("train", send={"x": x}, up=up, plain=("shared",))
        delta = reply.mean["delta"]
        if self._apart:
            change = len(reply.ids) / reply.population * reply.mean["shared"]
        else:
            change = float(reply.each["share"].sum()) / reply.population * delta
        h = state["h"] + self.alpha * change
        left = self._weighing.present(h, reply.growth)
        return {"x": x - delta - left / self.alpha, "h": h}, {}
