"""Adam and Adagrad at the client: a step of its own for each coordinate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Gt, Interval

from rayfed.core.arrays import Array, namespace
from rayfed.solvers.descent import Descent


@dataclass(frozen=True, kw_only=True)
class Adam(Descent):
    """Adam, with bias correction; its moments start at 0 in every round.

    Kingma, Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015,
    https://arxiv.org/abs/1412.6980, Algorithm 1.

    With g the gradient of the minibatch objective, clipped, corrected and decayed as in SGD,
    plus ``mu (x - x0)``, local step k is::

        m <- beta1 m + (1 - beta1) g,    v <- beta2 v + (1 - beta2) g^2
        x <- x - lr_t (m / (1 - beta1^k)) / (sqrt(v / (1 - beta2^k)) + epsilon)

    Parameters
    ----------
    beta1, beta2 : float
        Weights of the last first and second moment.
    epsilon : float
        Added to the root of the second moment.
    """

    name: ClassVar[str] = "adam"

    beta1: Annotated[float, Interval(ge=0, lt=1)] = 0.9
    beta2: Annotated[float, Interval(ge=0, lt=1)] = 0.999
    epsilon: Annotated[float, Gt(0)] = 1e-8

    def buffers(self) -> int:
        """Return 2: the moments m and v."""
        return 2

    def direction(self, g: Array, pull: Array | None, buffers: Sequence[Array], step: int) -> Array:
        """Return the corrected first moment over the root of the second."""
        if pull is not None:
            g += pull
        m, v = buffers
        m *= self.beta1
        m += (1 - self.beta1) * g
        v *= self.beta2
        v += (1 - self.beta2) * (g * g)
        g[...] = m / (1 - self.beta1**step)
        g /= namespace(v).sqrt(v / (1 - self.beta2**step)) + self.epsilon
        return g


@dataclass(frozen=True, kw_only=True)
class Adagrad(Descent):
    """Adagrad; its sum of squares starts at 0 in every round.

    Duchi, Hazan, Singer, "Adaptive Subgradient Methods for Online Learning and Stochastic
    Optimization", JMLR 2011, https://jmlr.org/papers/v12/duchi11a.html, diagonal form.

    With g the gradient of the minibatch objective, clipped, corrected and decayed as in SGD,
    plus ``mu (x - x0)``, a local step is::

        v <- v + g^2,    x <- x - lr_t g / (sqrt(v) + epsilon)

    Parameters
    ----------
    epsilon : float
        Added to the root of the sum of squares.
    """

    name: ClassVar[str] = "adagrad"

    epsilon: Annotated[float, Gt(0)] = 1e-8

    def buffers(self) -> int:
        """Return 1: the sum of squares v."""
        return 1

    def direction(self, g: Array, pull: Array | None, buffers: Sequence[Array], step: int) -> Array:
        """Return the gradient over the root of the sum of squares."""
        if pull is not None:
            g += pull
        (v,) = buffers
        v += g * g
        g /= namespace(v).sqrt(v) + self.epsilon
        return g
