"""pFedMe: personal models by Moreau envelopes.

C. T. Dinh, N. H. Tran, T. D. Nguyen, "Personalized Federated Learning with Moreau Envelopes",
NeurIPS 2020, https://arxiv.org/abs/2006.08848, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Ge, Gt

from rayfed.algorithms.fedavg import FedAvg
from rayfed.core.arrays import Array, Ints, namespace
from rayfed.core.needs import AVERAGED, GLOBAL_STEPS, GRADIENTS, OWN_MODELS, Terms
from rayfed.messages import Upload
from rayfed.problems.base import Batch, Problem

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class PFedMe(FedAvg):
    """FedAvg on the Moreau envelopes of the F_i (Dinh, Tran, Nguyen 2020).

    The envelope of client i at w (p,) is min_theta F_i(theta) + lam/2 ||theta - w||^2. In every
    local step the client minimises that of a minibatch by some gradient steps from w_i (p,), and
    moves w_i <- w_i - lr lam (w_i - theta). The server moves to (1 - server_lr) w + server_lr
    mean_i w_i; ``server_lr`` is the paper's beta.

    Parameters
    ----------
    lam : float
        How strongly the personal model theta_i is pulled to w: a large value follows FedAvg.
    inner_steps : int
        Gradient steps K towards theta.
    inner_lr : float
        Their step size.

    Notes
    -----
    Client i is scored with its theta_i for the server's model, found by the inner steps on all of
    its training rows: nothing is kept between rounds. Deviations from the paper: the inner steps
    begin at w_i in every local step. inner_lr lam above 1 overshoots, above 2 diverges.

    Examples
    --------
    >>> PFedMe().inner_steps
    5
    """

    name: ClassVar[str] = "pfedme"
    needs: ClassVar[Terms] = FedAvg.needs | {GRADIENTS}
    gives: ClassVar[Terms] = FedAvg.gives - {GLOBAL_STEPS, AVERAGED} | {OWN_MODELS}

    lam: Annotated[float, Gt(0)] = 15.0
    inner_steps: Annotated[int, Ge(1)] = 5
    inner_lr: Annotated[float, Gt(0)] = 0.05

    def train(self, clients: Clients, x: Array) -> Upload:
        """Client function: local steps along lam (w - theta) (K, p); upload Delta (K, p)."""
        problem = clients.problem

        def envelope(w: Array, batches: Sequence[Batch], index: Ints) -> tuple[Array, Array]:
            loss, theta = self._personal(problem, w, batches[0])
            return loss, self.lam * (w - theta)

        local = clients.solve(x, gradient=envelope)
        return Upload({"delta": x - local.x}, loss=local.loss)

    def _personal(self, problem: Problem, w: Array, batch: Batch) -> tuple[Array, Array]:
        """Return the losses (k,) at w (k, p), and theta (k, p) after the inner steps from it."""
        loss, g = problem.value_and_gradient(w, batch)
        theta = w - self.inner_lr * g
        for _ in range(1, self.inner_steps):
            g = problem.gradient(theta, batch)
            theta = theta - self.inner_lr * (g + self.lam * (theta - w))
        return loss, theta

    @property
    def gradients_a_step(self) -> float:
        """K: one for each inner step."""
        return float(self.inner_steps)

    def models(self, clients: Clients, x: Array) -> Array:
        """Return theta_i (K, p) for the server's model x (p,)."""
        start = namespace(x).broadcast_to(x, (len(clients.ids), clients.p))
        return self._personal(clients.problem, start, clients.data)[1]
