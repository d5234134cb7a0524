"""Ditto: a personal model for every client, held near the global one.

T. Li, S. Hu, A. Beirami, V. Smith, "Ditto: Fair and Robust Federated Learning Through
Personalization", ICML 2021, https://arxiv.org/abs/2012.04221, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Ge

from rayfed.algorithms.base import Coded
from rayfed.algorithms.fedavg import FedAvg
from rayfed.core.arrays import Array, Ints
from rayfed.core.needs import AVERAGED, GLOBAL_STEPS, GRADIENTS, OWN_MODELS, Terms
from rayfed.messages import State, Upload
from rayfed.problems.base import Batch

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class Ditto(FedAvg):
    """FedAvg, and a personal model v_k for every client (Li et al. 2021).

    A participant trains the broadcast model w (p,) as in FedAvg, and takes as many local steps
    v <- v - lr (grad F_k(v) + lam (v - w)) from its own v_k (p,), which it keeps.

    Parameters
    ----------
    lam : float
        How strongly v_k is pulled to w: 0 is training alone, a large value the global model.

    Notes
    -----
    Deviations from the paper: v_k takes its steps along the minibatches of the local steps of w.
    lam lr above 1 overshoots, above 2 diverges.

    Examples
    --------
    >>> import numpy as np
    >>> sorted(Ditto().client_state(np.zeros(2)))
    ['v']
    """

    name: ClassVar[str] = "ditto"
    coded: ClassVar[Coded] = {"delta": "any"}
    needs: ClassVar[Terms] = FedAvg.needs | {GRADIENTS}
    gives: ClassVar[Terms] = FedAvg.gives - {GLOBAL_STEPS, AVERAGED} | {OWN_MODELS}

    lam: Annotated[float, Ge(0)] = 1.0

    def client_state(self, x0: Array) -> State:
        """Return every client's first personal model v_k = x0 (p,)."""
        return {"v": x0}

    def train(self, clients: Clients, x: Array) -> Upload:
        """Client function: local steps of the global model and of the personal ones (K, p)."""
        problem = clients.problem

        def pulled(v: Array, batches: Sequence[Batch], index: Ints) -> tuple[Array, Array]:
            loss, g = problem.value_and_gradient(v, batches[0])
            g += self.lam * (v - x)
            return loss, g

        personal = clients.solve(clients.state["v"], gradient=pulled)
        return replace(super().train(clients, x), state={"v": personal.x})

    @property
    def gradients_a_step(self) -> float:
        """2: one for w and one for v."""
        return 2.0

    def models(self, clients: Clients, x: Array) -> Array:
        """Return v_k (K, p)."""
        return clients.state["v"]
