"""FedAvg with fine-tuning: the plain baseline of personalised learning.

T. Yu, E. Bagdasaryan, V. Shmatikov, "Salvaging Federated Learning by Local Adaptation", 2020,
https://arxiv.org/abs/2002.04758, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from rayfed.algorithms.fedavg import FedAvg
from rayfed.core.arrays import Array
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import OWN_MODELS, Terms
from rayfed.solvers.base import Solver
from rayfed.solvers.sgd import SGD

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class FineTuned(FedAvg):
    """FedAvg with personal models by local steps from the global model (Yu et al. 2020).

    The steps change nothing in the training; they are taken on the training rows, anew in every
    evaluation, and with the same minibatches each time.

    Parameters
    ----------
    tune : Solver
        The steps that personalise; one pass over the client's rows if not given.

    Raises
    ------
    ScenarioError
        If the steps of `tune` are given in seconds.

    Notes
    -----
    Deviations from the paper: all layers are tuned, none is frozen, and no one picks the better of
    the global and the tuned model.

    Examples
    --------
    >>> FineTuned().tune.epochs
    1
    """

    name: ClassVar[str] = "fedavg-finetuned"
    gives: ClassVar[Terms] = FedAvg.gives | {OWN_MODELS}

    tune: Solver = field(default_factory=lambda: SGD(epochs=1))

    def __post_init__(self) -> None:
        if getattr(self.tune, "time_s", None) is not None:
            text = "found time_s, but evaluation takes no simulated time; give steps or epochs"
            raise ScenarioError("tune", text)

    def models(self, clients: Clients, x: Array) -> Array:
        """Return the models (K, p) after fine-tuning x (p,)."""
        steps = self.tune.step_counts(clients.sizes, ids=clients.ids, seed=clients.seed)
        return replace(clients, solver=self.tune, steps=steps, round=1, draw=1).solve(x).x
