"""D-PSGD: decentralised parallel SGD, which mixes models while nodes step.

X. Lian, C. Zhang, H. Zhang, C.-J. Hsieh, W. Zhang, J. Liu, "Can Decentralized Algorithms Outperform
Centralized Algorithms? A Case Study for Decentralized Parallel Stochastic Gradient Descent",
NeurIPS 2017, https://arxiv.org/abs/1705.09056, Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rayfed.algorithms.base import Coded
from rayfed.algorithms.gossip import Gossip, mixed
from rayfed.core.arrays import Array
from rayfed.core.needs import EVERYONE, Terms
from rayfed.messages import State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class DPSGD(Gossip):
    """Decentralised SGD: x_i <- near(x)_i - lr g_i(x_i) (Lian et al. 2017, Algorithm 1).

    The gradient is that at x_i, not at the mean of the neighbours, so messages travel while nodes
    compute. ``dfedavg`` steps first and then mixes, which is another method.

    Notes
    -----
    With a codec Q neighbours mix what they decode: x_i <- x_i + near(Q(x))_i - Q(x_i) - lr g_i,
    which keeps the mean (Koloskova, Stich, Jaggi, ICML 2019, https://arxiv.org/abs/1902.00340,
    scheme Q2-G).

    Deviations from the paper: a node may take several local steps, whose change is added; the
    paper has one. The paper's W is any symmetric doubly stochastic matrix.

    Examples
    --------
    >>> DPSGD().overlap
    True
    """

    name: ClassVar[str] = "d-psgd"
    overlap: ClassVar[bool] = True
    needs: ClassVar[Terms] = Gossip.needs - {EVERYONE}
    coded: ClassVar[Coded | None] = {"x": "any"}

    def client_state(self, x0: Array) -> State:
        """Return x_i = x0 (p,), and the change of the last local steps."""
        return {"x": x0, "change": 0 * x0}

    def step(self, clients: Clients) -> Upload:
        """Client function: send x_i (K, p), and keep the change of the local steps from it."""
        x = clients.state["x"]
        local = clients.solve(x)
        change, coded = {"change": local.x - x}, {"change": ("x", -1.0)}
        return Upload({"x": x}, state=change, loss=local.loss, mirrors=coded)

    def mix(self, clients: Clients, x: Array) -> Upload:
        """Client function: add the change to near(x)_i (K, p)."""
        return mixed(x + clients.state["change"])
