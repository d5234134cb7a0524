"""APFL: personal models mixed with the global one, with learned coefficients.

Y. Deng, M. M. Kamani, M. Mahdavi, "Adaptive Personalized Federated Learning", 2020,
https://arxiv.org/abs/2003.13461, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from annotated_types import Interval

from rayfed.algorithms.base import Coded
from rayfed.algorithms.control import need_sgd
from rayfed.algorithms.fedavg import FedAvg
from rayfed.core.arrays import Array, Ints, copied, inner, namespace
from rayfed.core.needs import AVERAGED, GLOBAL_STEPS, GRADIENTS, OWN_MODELS, Terms
from rayfed.messages import State, Upload
from rayfed.problems.base import Batch
from rayfed.solvers.base import Solver
from rayfed.solvers.sgd import SGD

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class APFL(FedAvg):
    """Personal models alpha_i v_i + (1 - alpha_i) w, alpha_i learnt (Deng et al. 2020).

    In a local step, with the gradient g of F_i at the mixture of v_i (p,) and the local version
    w_i (p,) of the global model, w_i goes along grad F_i(w_i), v_i <- v_i - lr alpha_i g, and
    alpha_i <- alpha_i - lr <v_i - w_i, g>, kept between 0 and 1. The server averages the w_i.

    Parameters
    ----------
    alpha : float
        First alpha_i: 0 is FedAvg, 1 is training alone.
    adaptive : bool
        Whether alpha_i is learnt.

    Notes
    -----
    All of a step is taken from the values before it. Deviations from the paper: a client is
    scored with the mixture of its v_i and the server's model, not with its last w_i, which it does
    not keep; v_i takes plain steps, whatever momentum or proximal term w_i has.

    Examples
    --------
    >>> sorted(APFL().client_state(np.zeros(2)))
    ['alpha', 'v']
    """

    name: ClassVar[str] = "apfl"
    coded: ClassVar[Coded] = {"delta": "any"}
    needs: ClassVar[Terms] = FedAvg.needs | {GRADIENTS}
    gives: ClassVar[Terms] = FedAvg.gives - {GLOBAL_STEPS, AVERAGED} | {OWN_MODELS}

    alpha: Annotated[float, Interval(ge=0, le=1)] = 0.5
    adaptive: bool = True

    def check_solver(self, solver: Solver) -> None:
        """Refuse a solver other than SGD."""
        need_sgd(solver, self.name)

    def client_state(self, x0: Array) -> State:
        """Return every client's first model v_i = x0 (p,) and share alpha_i (1,)."""
        return {"v": x0, "alpha": np.full(1, self.alpha, dtype=x0.dtype)}

    def train(self, clients: Clients, x: Array) -> Upload:
        """Client function: local steps of w_i, v_i and alpha_i; upload Delta (K, p) of w_i."""
        problem, solver = clients.problem, clients.solver
        assert isinstance(solver, SGD)  # `check_solver` has refused all others
        lr, xp = solver.rate(clients.round), namespace(x)
        v, alpha = (copied(clients.state[name]) for name in ("v", "alpha"))

        def mixed(w: Array, batches: Sequence[Batch], index: Ints) -> tuple[Array, Array]:
            a = alpha[index]
            _, g = problem.value_and_gradient(a * v[index] + (1 - a) * w, batches[0])
            if self.adaptive:
                slope = inner(v[index] - w, g)[:, None]
                alpha[index] = xp.clip(a - lr * slope, 0, 1)
            v[index] -= lr * a * g
            return problem.value_and_gradient(w, batches[0])

        local = clients.solve(x, gradient=mixed)
        return Upload({"delta": x - local.x}, state={"v": v, "alpha": alpha}, loss=local.loss)

    @property
    def gradients_a_step(self) -> float:
        """2: one at the mixture and one at w."""
        return 2.0

    def models(self, clients: Clients, x: Array) -> Array:
        """Return alpha_i v_i + (1 - alpha_i) x (K, p)."""
        alpha = clients.state["alpha"]
        mixture: Array = alpha * clients.state["v"] + (1 - alpha) * x
        return mixture
