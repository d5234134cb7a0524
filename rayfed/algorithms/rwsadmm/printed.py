"""RWSADMM as its paper's slides print it, which diverges."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rayfed.algorithms.rwsadmm.formulation import Formulation
from rayfed.algorithms.rwsadmm.tolerance import widths
from rayfed.core.arrays import Array, Ints, copied, namespace
from rayfed.messages import Reply, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients


class Printed(Formulation):
    """Multipliers z_j >= 0, and the inequality treated as an equation.

    With ``s = sgn(y - x_j)`` a local step is ``x_j <- y + s (z_j - epsilon - g) / beta``,
    ``z_j <- z_j + kappa beta (|y - x_j| - epsilon)``.
    """

    uploads: ClassVar[tuple[str, ...]] = ("new", "old")

    def walk(self, clients: Clients, y: Array) -> Upload:
        """Client function: upload x_j - (z_j / beta + epsilon) s (K, p), new and old."""
        x0, z = clients.state["x"], copied(clients.state["z"])
        epsilon, kappa = widths(self.epsilon, clients, x0), self.kappa_of(clients.round)
        xp = namespace(x0)

        def part(x: Array, z: Array) -> Array:
            new: Array = x - (z / self.beta + epsilon) * _side(y - x)
            return new

        def follow(x: Array, who: Ints) -> None:
            z[who] += kappa * self.beta * (xp.abs(y - x) - epsilon[who])

        def slope(g: Array, x: Array, who: Ints) -> Array:
            at: Array = self.beta * (x - y) - _side(y - x) * (z[who] - epsilon[who] - g)
            return at

        old = part(x0, z)
        local = self.steps(clients, slope, follow)
        return self.upload(local, z, y, {"new": part(local.x, z), "old": old})

    def moved(self, y: Array, reply: Reply) -> Array:
        """Return the new token (p,): only the new part is divided by n."""
        answered = len(reply.ids)
        moved: Array = y + self.share(reply) * reply.mean["new"] - answered * reply.mean["old"]
        return moved


def _side(t: Array) -> Array:
    """Return 1 or -1; 1 for 0, where the printed method would never begin to move."""
    xp = namespace(t)
    side: Array = xp.astype(xp.where(t < 0, -1, 1), t.dtype)
    return side
