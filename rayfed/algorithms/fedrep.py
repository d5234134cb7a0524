"""FedRep: clients fit heads of their own to a representation that they learn together.

L. Collins, H. Hassani, A. Mokhtari, S. Shakkottai, "Exploiting Shared Representations for
Personalized Federated Learning", ICML 2021, https://arxiv.org/abs/2102.07078, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rayfed.algorithms.base import Coded
from rayfed.algorithms.fedper import FedPer
from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import AVERAGED, GRADIENTS, Terms
from rayfed.messages import ByClient, Upload
from rayfed.problems.base import Batch
from rayfed.solvers.base import Solver
from rayfed.solvers.sgd import SGD

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class FedRep(FedPer):
    """A shared representation and a head for every client, trained in turns (Collins et al. 2021).

    The model is a representation phi (s,) and a head h_i (p - s,), the personal layers of
    `FedPer`. A participant first takes the steps of `head` along the gradient of F_i(phi, h) in h,
    from its h_i and the broadcast phi, and keeps the new h_i. Then it takes its local steps along
    the gradient of F_i(phi, h_i) in phi, and uploads the change of phi (s,). The server averages.

    Parameters
    ----------
    head : Solver
        The steps of the head; ten of them in minibatches of 32 if not given.

    Notes
    -----
    A step of the head takes as long as a local step of the same minibatch, though its gradient
    stops at the head. The notes of `FedPer` on personal layers hold here.

    Deviations from the paper: the server learning rate, 1 in the paper, and the mean over the
    participants, which is by size unless ``weights: uniform`` and plain in the paper.

    Examples
    --------
    >>> FedRep(head=SGD(epochs=5)).head.epochs
    5
    """

    name: ClassVar[str] = "fedrep"
    needs: ClassVar[Terms] = FedPer.needs | {GRADIENTS}
    gives: ClassVar[Terms] = FedPer.gives - {AVERAGED}
    coded: ClassVar[Coded] = {"delta": "any"}

    head: Solver = field(default_factory=SGD)

    def __post_init__(self) -> None:
        super().__post_init__()
        if getattr(self.head, "time_s", None) is not None or self.head.varying is not None:
            text = "found a number of steps that changes; give a number of steps or epochs"
            raise ScenarioError("head", text)

    def train(self, clients: Clients, base: Array) -> Upload:
        """Client function: steps of the head, then of phi (s,); upload the change of phi (K, s)."""
        problem, phi, split = clients.problem, base[None, :], self._split

        def in_head(h: Array, batches: Sequence[Batch], index: Ints) -> tuple[Array, Array]:
            loss, g = problem.value_and_gradient(split.join(phi, h), batches[0])
            return loss, split.own(g)

        # Another Ask's draws: the head and the representation see different minibatches
        steps = self.head.step_counts(clients.sizes)
        first = replace(clients, solver=self.head, steps=steps, ask=clients.ask + 1)
        h_i = first.solve(clients.state["own"], gradient=in_head).x

        def in_phi(now: Array, batches: Sequence[Batch], index: Ints) -> tuple[Array, Array]:
            loss, g = problem.value_and_gradient(split.join(now, h_i[index]), batches[0])
            return loss, split.shared(g)

        local = clients.solve(base, gradient=in_phi)
        return Upload({"delta": base - local.x}, {"own": h_i}, loss=local.loss)

    @property
    def passes(self) -> ByClient:
        """The number of passes over a client's rows in the steps of the head."""
        return self._head_passes

    def _head_passes(self, ids: Ints, sizes: Ints) -> Floats:
        minibatch = self.head.minibatch
        rows = sizes if minibatch is None else minibatch.size
        return np.asarray(self.head.step_counts(sizes) * rows / sizes)
