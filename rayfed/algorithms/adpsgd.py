"""AD-PSGD: asynchronous decentralised SGD, in which pairs of nodes average their models.

X. Lian, W. Zhang, C. Zhang, J. Liu, "Asynchronous Decentralized Parallel Stochastic Gradient
Descent", ICML 2018, https://arxiv.org/abs/1710.06952, Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rayfed.algorithms.meeting import Meeting
from rayfed.core.arrays import Array
from rayfed.messages import State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class ADPSGD(Meeting):
    """Asynchronous gossip: x_i, x_j <- (x_i + x_j) / 2, then x_i <- x_i - lr g_i(x_i as read).

    Node i computes its gradient at the model that it had when it began; meanwhile others may
    average with it. Averaging keeps the sum of all models, so that a gradient moves their mean by
    1 / N of its step. Fast nodes step more often: the method heads for the minimum of
    sum_i r_i F_i, with r_i the steps of node i per second.

    Notes
    -----
    Deviations from the paper: a node may take several local steps, whose change is added; the
    paper has one.

    Examples
    --------
    >>> ADPSGD().merge({"x": 1.0}, {"x": 4.0})
    {'x': 2.5}
    """

    name: ClassVar[str] = "ad-psgd"

    def merge(self, mine: State, yours: State) -> State:
        """Return the mean (K, p) of both models."""
        return {"x": 0.5 * (mine["x"] + yours["x"])}

    def step(self, clients: Clients, x: Array, read: Array) -> Upload:
        """Client function: add the change of the local steps from `read` (K, p) to x (K, p)."""
        local = clients.solve(read)
        return Upload({"x": x + (local.x - read)}, loss=local.loss)
