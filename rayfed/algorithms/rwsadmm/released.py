"""RWSADMM as its authors' released code does it, which is nearer to a proximal FedAvg."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rayfed.algorithms.rwsadmm.formulation import Formulation
from rayfed.algorithms.rwsadmm.tolerance import widths
from rayfed.core.arrays import Array, Ints, copied, like, namespace
from rayfed.messages import Reply, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients


class Released(Formulation):
    """Every client has a token y_j of its own in a round, which starts at y and moves along.

    A local step is ``x_j <- y_j - (g - z_j + epsilon) / beta``,
    ``z_j <- z_j + kappa beta (x_j - y_j - epsilon)``, and y_j moves by the change of
    x_j - z_j / beta over `users`. kappa decays with every local step. The server mixes the mean
    of the x_j into its model.
    """

    uploads: ClassVar[tuple[str, ...]] = ("mean",)
    plain: ClassVar[bool] = False

    def walk(self, clients: Clients, y: Array) -> Upload:
        """Client function: upload x_j (K, p)."""
        x0, z = clients.state["x"], copied(clients.state["z"])
        epsilon = widths(self.epsilon, clients, x0)
        token, last = copied(namespace(y).broadcast_to(y, x0.shape)), x0 - z / self.beta
        taken = np.zeros(len(x0), dtype=np.int64)

        def follow(x: Array, who: Ints) -> None:
            done = (clients.round - 1) * clients.steps[who] + taken[who]
            kappa = like((self.kappa * self.kappa_decay**done)[:, None], x)
            z[who] += kappa * self.beta * (x - token[who] - epsilon[who])
            now = x - z[who] / self.beta
            token[who] += (now - last[who]) / self.users
            last[who] = now
            taken[who] += 1

        def slope(g: Array, x: Array, who: Ints) -> Array:
            return self.beta * (x - token[who]) + g - z[who] + epsilon[who]

        local = self.steps(clients, slope, follow)
        return self.upload(local, z, y, {"mean": local.x})

    def moved(self, y: Array, reply: Reply) -> Array:
        """Return the new model (p,)."""
        return (1 - self.mix) * y + self.mix * reply.mean["mean"]
