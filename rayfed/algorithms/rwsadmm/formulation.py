"""Base of the formulations of RWSADMM: local steps, and what becomes of their result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rayfed.algorithms.rwsadmm.tolerance import pull, widths
from rayfed.clients.solvers import SGD, Local
from rayfed.core.arrays import Array, Ints, inner, to_numpy
from rayfed.messages import Reply, State, Upload
from rayfed.problems.base import Batch

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class Formulation:
    """Base of the formulations: a client function, and how the server moves its token.

    Settings are those of `RWSADMM`.

    Attributes
    ----------
    uploads : tuple of str
        Names of the vectors (p,) that a client uploads.
    plain : bool
        Whether their means are over clients, whatever their size.
    """

    uploads: ClassVar[tuple[str, ...]] = ("change",)
    plain: ClassVar[bool] = True

    beta: float
    epsilon: float | tuple[float, ...]
    kappa: float
    kappa_decay: float
    mix: float
    users: int

    def client_state(self, x0: Array) -> State:
        """Return what a client keeps beside its model and multiplier."""
        return {}

    def walk(self, clients: Clients, y: Array) -> Upload:
        """Client function: local steps of x_j and z_j (K, p) around the token y (p,)."""
        raise NotImplementedError

    def moved(self, y: Array, reply: Reply) -> Array:
        """Return the new token (p,): y and (1/n) times the sum of the changes."""
        return y + self.share(reply) * reply.mean["change"]

    def share(self, reply: Reply) -> float:
        """Return which share of all clients has answered."""
        return len(reply.ids) / reply.population

    # -- what client functions use ------------------------------------------------------------

    def kappa_of(self, round: int) -> float:
        """Return the step of the multipliers in a round."""
        return float(self.kappa * self.kappa_decay ** (round - 1))

    def following(self, clients: Clients, z: Array, y: Array) -> Callable[[Array, Ints], None]:
        """Return what moves the multipliers z (K, p) in place after a step."""
        epsilon, kappa = widths(self.epsilon, clients, z), self.kappa_of(clients.round)

        def follow(x: Array, who: Ints) -> None:
            z[who] += kappa * (pull(x, z[who], y, epsilon[who], self.beta) - z[who])

        return follow

    def steps(
        self,
        clients: Clients,
        slope: Callable[[Array, Array, Ints], Array],
        follow: Callable[[Array, Ints], None],
    ) -> Local:
        """Take local steps x <- x - slope / beta; after each of them the multipliers `follow`.

        Parameters
        ----------
        slope : callable
            From the stochastic gradients and the models (k, p) and which of the K clients they
            are (k,) to slopes (k, p).
        follow : callable
            Called with the new models (k, p) and which of the K clients they are (k,).
        """
        problem = clients.problem

        def lagrangian(x: Array, batches: Sequence[Batch], who: Ints) -> tuple[Array, Array]:
            loss, g = problem.value_and_gradient(x, batches[0])
            return loss, slope(g, x, who)

        assert isinstance(clients.solver, SGD)  # `check_solver` has refused all others
        solver = replace(clients.solver, lr=1 / self.beta, lr_decay=1.0, momentum=0.0, mu=0.0)
        walking = replace(clients, solver=solver)
        return walking.solve(clients.state["x"], gradient=lagrangian, after_step=follow)

    @staticmethod
    def upload(
        local: Local,
        z: Array,
        y: Array,
        values: Mapping[str, Array],
        kept: Mapping[str, Array] = MappingProxyType({}),
    ) -> Upload:
        """Return an upload of `values` and the distance to the token (K,), keeping x, z and more.

        The distance is that of the new model x_j from y.
        """
        apart = local.x - y
        squares = to_numpy(inner(apart, apart))
        distance = np.sqrt(squares.astype(np.float64))
        state = {"x": local.x, "z": z, **kept}
        return Upload({**values, "distance": distance}, state=state, loss=local.loss)
