"""RWSADMM whose local steps descend the augmented Lagrangian from where x_j is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rayfed.algorithms.rwsadmm.formulation import Formulation
from rayfed.algorithms.rwsadmm.tolerance import pull, widths
from rayfed.core.arrays import Array, Ints, copied
from rayfed.messages import State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients


class LagrangianDescent(Formulation):
    """``x_j <- x_j - (g - P_j) / beta`` with ``P_j = S(z_j + beta (y - x_j))``.

    y is the mean of the parts y - P_j / beta, of which every client keeps its own.
    """

    def client_state(self, x0: Array) -> State:
        """Return the client's part of the token (p,)."""
        return {"part": x0}

    def walk(self, clients: Clients, y: Array) -> Upload:
        """Client function: upload how the client's part of the token y (p,) has changed (K, p)."""
        z = copied(clients.state["z"])
        epsilon = widths(self.epsilon, clients, z)

        def slope(g: Array, x: Array, who: Ints) -> Array:
            return g - pull(x, z[who], y, epsilon[who], self.beta)

        local = self.steps(clients, slope, self.following(clients, z, y))
        part = y - pull(local.x, z, y, epsilon, self.beta) / self.beta
        change = {"change": part - clients.state["part"]}
        return self.upload(local, z, y, change, {"part": part})
