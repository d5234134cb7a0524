"""Stochastic gradient descent at the client, with momentum and a proximal term."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Interval

from rayfed.core.arrays import Array, Floats, Ints
from rayfed.solvers.descent import Descent


@dataclass(frozen=True, kw_only=True)
class SGD(Descent):
    """Stochastic gradient descent.

    With g the gradient of the minibatch objective at x, x0 the model at the start of the round
    and lr_t the learning rate of round t, a local step is::

        g <- g min(1, clip_norm / ||g||) + correction + weight_decay x
        m <- momentum m + g
        x <- x - lr_t (m + mu (x - x0))

    The buffer m starts at 0 in every round and the proximal term stays outside of it, as the
    normaliser of FedNova presumes (Wang et al., "Tackling the objective inconsistency problem",
    NeurIPS 2020).

    Parameters
    ----------
    momentum : float
        Weight of the last buffer.
    """

    name: ClassVar[str] = "sgd"
    linear: ClassVar[bool] = True

    momentum: Annotated[float, Interval(ge=0, lt=1)] = 0.0

    def normaliser(self, steps: Ints, round: int) -> Floats:
        """Return ||a_i||_1 (K,): the sum of the coefficients of the gradients in x0 - x, over lr.

        It is the number of steps without momentum and proximal term. With rho the momentum and
        alpha = lr_t mu below 1, each step does c <- rho c + 1, s <- (1 - alpha) s + c, and s is
        the sum.

        Parameters
        ----------
        steps : (K,) array of int
            Local steps tau_i.
        round : int
            The round, from 1: the learning rate may change.

        Examples
        --------
        >>> SGD(momentum=0.9).normaliser(np.array([7]), round=1).round(5)
        array([23.04672])
        """
        alpha = self.rate(round) * self.mu
        sums = np.zeros(int(steps.max(initial=0)) + 1)
        c = 0.0
        for k in range(1, len(sums)):
            c = self.momentum * c + 1
            sums[k] = (1 - alpha) * sums[k - 1] + c
        return sums[steps]

    @property
    def plain(self) -> bool:
        """Whether nothing is added to the gradients, and nothing clipped."""
        return not (self.momentum or self.mu or self.weight_decay or self.clip_norm)

    def buffers(self) -> int:
        """Return 1 with momentum, else 0."""
        return 1 if self.momentum else 0

    def direction(self, g: Array, pull: Array | None, buffers: Sequence[Array], step: int) -> Array:
        """Return ``m + mu (x - x0)``, or ``g + mu (x - x0)`` without momentum."""
        if buffers:
            g = _accumulate(buffers[0], self.momentum, g)
        if pull is not None:
            g += pull
        return g


def _accumulate(m: Array, momentum: float, g: Array) -> Array:
    """Update the buffer m in place, and return it in g's memory."""
    m *= momentum
    m += g
    g[...] = m
    return g
