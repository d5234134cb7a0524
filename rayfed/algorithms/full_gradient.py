"""The global objective F from sums over clients, for any weights.

A mean over participants has the weights of a model average. The F of a problem may be a sum, or
weigh clients equally; a step along its gradient needs that gradient and no other multiple of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from rayfed.algorithms.base import Aim, Algorithm
from rayfed.core.arrays import Array, like, namespace
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import GRADIENTS, SOLVER, Terms
from rayfed.messages import Reply, State, Upload
from rayfed.solvers.base import Solver
from rayfed.solvers.sgd import SGD

if TYPE_CHECKING:
    from rayfed.clients import Clients

SHARE = "share"
"""Name of the scalar with the share of F of a client."""


def terms(clients: Clients, **rows: Array) -> dict[str, Array]:
    """Return the clients' terms of F, or of its derivatives, to be uploaded.

    Parameters
    ----------
    rows : (K, ...) arrays
        F_i or its derivatives, by name.

    Returns
    -------
    dict
        The rows with the weights of F, and `SHARE` (K,).
    """
    weight, share = clients.objective.per_mass(clients.mass)
    weighted = {
        name: like(weight.reshape(-1, *[1] * (r.ndim - 1)), r) * r for name, r in rows.items()
    }
    return {**weighted, SHARE: share}


def total(reply: Reply, name: str) -> Array:
    """Return F or a derivative of it from the uploads of `terms`.

    Of some clients it is the estimate ``sum_i w_i F_i / sum_i share_i`` over them.
    """
    estimate: Array = reply.mean[name] / float(reply.mean[SHARE])
    return estimate


@dataclass(frozen=True, kw_only=True)
class FullGradient(Algorithm):
    """Base of methods that step along derivatives of F and take no local steps.

    Parameters
    ----------
    local : Solver
        No steps of it are taken; its ``batch`` is the number of rows read in the time of a step
        that ``clients.delay`` gives, and so what a pass over all rows costs.
    """

    needs: ClassVar[Terms] = Algorithm.needs - {SOLVER} | {GRADIENTS}
    aim: ClassVar[Aim] = "own"
    curved: ClassVar[bool] = False
    """Whether it needs Hessians or their products with vectors."""

    local: Solver = field(default_factory=lambda: SGD(steps=1, batch="full"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weights is not None:
            what = f"found {self.weights}, but '{self.name}' steps along the gradient of F"
            raise ScenarioError("weights", f"{what}; leave it out and set problem.weighting")

    def client_state(self, x0: Array) -> State:
        """Return the model of the round, which later Asks do not send again."""
        return {"x": x0} if self.curved else {}

    def slope(self, clients: Clients, x: Array) -> Upload:
        """Client function: the gradient of F_i at x (p,); upload (K, p)."""
        new_state = {"x": namespace(x).tile(x, (len(clients.ids), 1))} if self.curved else {}
        return Upload(terms(clients, gradient=clients.gradient(x)), state=new_state)
