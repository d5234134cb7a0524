"""MOON: local models keep the global model's view of a row and leave their own last one.

Q. Li, B. He, D. Song, "Model-Contrastive Federated Learning", CVPR 2021,
https://arxiv.org/abs/2103.16257, Algorithm 1 and equations 3 and 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Ge, Gt

from rayfed.algorithms.base import Coded
from rayfed.algorithms.fedavg import FedAvg
from rayfed.core.arrays import Array, Ints, inner, namespace
from rayfed.core.needs import CORRECTIONS, LAYERS, REPRESENTATIONS, Terms
from rayfed.messages import State, Upload
from rayfed.problems.base import Batch

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class Moon(FedAvg):
    """FedAvg with a contrastive loss between models (Li, He, Song 2021).

    Let z, z_glob and z_prev be the representations of a row under the local model, the broadcast
    model x (p,), and the model (p,) that client i kept from the last round that it took part in, x0
    before. With the cosine similarity sim the loss of the row in local steps is
    l + mu l_con, l_con = -log(e^(sim(z, z_glob)/tau) / (e^(sim(z, z_glob)/tau) +
    e^(sim(z, z_prev)/tau))). The server is FedAvg's.

    Parameters
    ----------
    mu : float
        Weight of the contrastive loss; 0 is FedAvg.
    temperature : float
        tau; the smaller, the more a row counts that the last local model sees more alike.

    Notes
    -----
    The representation is what the last layer of the model is given. The losses in the events have
    the contrastive term in them. z_glob and z_prev are two forward passes more; a gradient is
    charged as three. As in the authors' code all three see the same augmented rows, and the
    models x and x_prev are in evaluation mode: with dropout only z draws random numbers, and with
    BatchNorm they have running statistics, those of x_prev after its local steps.

    Deviations from the paper: no projection head is added; a network may end in one. The server
    learning rate, 1 in the paper.

    Examples
    --------
    >>> Moon().temperature
    0.5
    """

    name: ClassVar[str] = "moon"
    coded: ClassVar[Coded] = {"delta": "any"}
    needs: ClassVar[Terms] = FedAvg.needs | {LAYERS, CORRECTIONS, REPRESENTATIONS}

    mu: Annotated[float, Ge(0)] = 1.0
    temperature: Annotated[float, Gt(0)] = 0.5

    def client_state(self, x0: Array) -> State:
        """Return every client's first model of the last round (p,), the first of all."""
        return {"previous": x0}

    def train(self, clients: Clients, x: Array) -> Upload:
        """Client function: local steps with the contrastive loss; upload Delta (K, p)."""
        problem, previous = clients.problem, clients.state["previous"]

        def contrasted(y: Array, batches: Sequence[Batch], index: Ints) -> tuple[Array, Array]:
            batch = batches[0]
            z_glob = problem.representation(x[None, :], batch.X, batch.key)
            z_prev = problem.representation(previous[index], batch.X, batch.key)

            def term(z: Array, which: slice) -> tuple[Array, Array]:
                w = self.mu * batch.w[which]
                return contrastive(z, z_glob[which], z_prev[which], w, self.temperature)

            return problem.value_and_gradient_with(y, batch, term)

        local = clients.solve(x, gradient=contrasted, moves=True)
        previous = clients.whole(local.x)
        return Upload({"delta": x - local.x}, {"previous": previous}, loss=local.loss)

    @property
    def gradients_a_step(self) -> float:
        """5/3: one, and two forward passes of three that make a gradient."""
        return 5 / 3


def contrastive(z: Array, to: Array, off: Array, w: Array, tau: float) -> tuple[Array, Array]:
    """Return ``sum_b w_b l_con`` (K,) and its derivatives in z (K, B, r).

    Parameters
    ----------
    z, to, off : (K, B, r) array
        Representations under the local model, the global one, and the last local one.
    w : (K, B) array
        Weights of the rows.
    tau : float
    """
    xp = namespace(z)
    near, towards = cosine(z, to)
    far, away = cosine(z, off)
    gap = (far - near) / tau
    loss = xp.logaddexp(xp.zeros_like(gap), gap)  # log(1 + e^gap)
    slope = w * xp.exp(gap - loss) / tau
    return inner(w, loss), slope[:, :, None] * (away - towards)


def cosine(z: Array, c: Array) -> tuple[Array, Array]:
    """Return ``z'c / (||z|| ||c||)`` (K, B) and its derivatives in z (K, B, r); 0 where z or c is.

    Examples
    --------
    >>> import numpy as np
    >>> z, c = np.array([[[3.0, 4.0], [0.0, 0.0]]]), np.array([[[2.0, 0.0], [2.0, 0.0]]])
    >>> [part.round(3).tolist() for part in cosine(z, c)]
    [[[0.6, 0.0]], [[[0.128, -0.096], [0.0, 0.0]]]]
    """
    of_z, of_c = _inverse_norm(z), _inverse_norm(c)
    similarity = inner(z, c) * (of_z * of_c)
    slope = (of_z * of_c)[:, :, None] * c - (similarity * of_z * of_z)[:, :, None] * z
    return similarity, slope


def _inverse_norm(z: Array) -> Array:
    """Return 1 / ||z|| (K, B), 0 where z is 0."""
    xp = namespace(z)
    norm = xp.sqrt(inner(z, z))
    zero = xp.zeros_like(norm)
    inverse: Array = xp.where(norm > 0, 1 / xp.where(norm > 0, norm, zero + 1), zero)
    return inverse
