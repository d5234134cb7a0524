"""Per-FedAvg: a global model from which one gradient step personalises well.

A. Fallah, A. Mokhtari, A. Ozdaglar, "Personalized Federated Learning with Theoretical Guarantees:
A Model-Agnostic Meta-Learning Approach", NeurIPS 2020, https://arxiv.org/abs/2002.07948,
Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Gt

from rayfed.algorithms.fedavg import FedAvg
from rayfed.core.arrays import Array, Ints
from rayfed.core.needs import AVERAGED, GLOBAL_STEPS, GRADIENTS, OWN_MODELS, PRODUCTS, Terms, where
from rayfed.messages import Upload
from rayfed.problems.base import Batch, Problem

if TYPE_CHECKING:
    from rayfed.clients import Clients

Variant = Literal["first-order", "hessian-free", "exact"]
_GRADIENTS: dict[Variant, float] = {"first-order": 2.0, "hessian-free": 4.0, "exact": 3.0}


@dataclass(frozen=True, kw_only=True)
class PerFedAvg(FedAvg):
    """FedAvg on the losses after a step, F_i(w - alpha grad F_i(w)) (Fallah et al. 2020).

    With independent minibatches D, D', D'' in every local step and
    g = grad F_i(w - alpha grad F_i(w; D); D'), w <- w - lr (I - alpha hess F_i(w; D'')) g.

    Parameters
    ----------
    alpha : float
        Step that personalises: client i is scored with w - alpha grad F_i(w) on its training rows.
    variant : "first-order", "hessian-free" or "exact"
        The Hessian is left out; its product with g is a difference of gradients; or exact.
    width : float
        Half the distance, along g, of the two gradients that "hessian-free" compares.

    Notes
    -----
    Deviations from the paper: the mean over the participants is by size unless ``weights:
    uniform``; plain in the paper. Test rows are never trained on. A product with the Hessian is
    charged as one gradient.

    Examples
    --------
    >>> PerFedAvg(variant="exact").variant
    'exact'
    """

    name: ClassVar[str] = "per-fedavg"
    needs: ClassVar[Terms] = FedAvg.needs | {GRADIENTS}
    gives: ClassVar[Terms] = FedAvg.gives - {GLOBAL_STEPS, AVERAGED} | {OWN_MODELS}

    alpha: Annotated[float, Gt(0)] = 0.01
    variant: Variant = "first-order"
    width: Annotated[float, Gt(0)] = 1e-3

    @property
    def setting_needs(self) -> Terms:
        """Products of Hessians with vectors, for the exact variant."""
        return where({PRODUCTS: self.variant == "exact"})

    def train(self, clients: Clients, x: Array) -> Upload:
        """Client function: local steps along the gradients above from x (p,); upload Delta."""
        problem = clients.problem

        def meta(w: Array, batches: Sequence[Batch], index: Ints) -> tuple[Array, Array]:
            first, second, third = batches
            loss, g = problem.value_and_gradient(w, first)
            g = problem.gradient(w - self.alpha * g, second)
            if self.variant == "first-order":
                return loss, g
            return loss, g - self.alpha * self._curved(problem, w, g, third)

        local = clients.solve(x, gradient=meta, streams=3)
        return Upload({"delta": x - local.x}, loss=local.loss)

    def _curved(self, problem: Problem, w: Array, g: Array, batch: Batch) -> Array:
        """Return hess F_i(w) g (k, p), exactly or by a difference of gradients."""
        if self.variant == "exact":
            return problem.hvp(w, g, batch)
        ahead = problem.gradient(w + self.width * g, batch)
        behind = problem.gradient(w - self.width * g, batch)
        difference: Array = (ahead - behind) / (2 * self.width)
        return difference

    @property
    def gradients_a_step(self) -> float:
        """2, 4 or 3: those of the variant."""
        return _GRADIENTS[self.variant]

    def models(self, clients: Clients, x: Array) -> Array:
        """Return x - alpha grad F_i(x) (K, p), the gradient on all training rows."""
        tuned: Array = x - self.alpha * clients.gradient(x)
        return tuned
