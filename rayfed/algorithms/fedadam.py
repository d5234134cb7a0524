"""FedAdam: Adam at the server.

Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan, "Adaptive Federated Optimization",
ICLR 2021, https://arxiv.org/abs/2003.00295, Algorithm 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Interval

from rayfed.algorithms.adaptive import Adaptive
from rayfed.core.arrays import Array


@dataclass(frozen=True, kw_only=True)
class FedAdam(Adaptive):
    """FedAvg whose server steps as Adam (Reddi et al. 2021).

    Client function as FedAvg's. With D the mean pseudo-gradient (p,) the server steps
    m <- beta1 m + (1 - beta1) D, v <- beta2 v + (1 - beta2) D^2,
    x <- x - server_lr m / (sqrt(v) + tau), coordinate by coordinate.

    Parameters
    ----------
    beta1, beta2 : float
        Weights of the last first and second moment.

    Notes
    -----
    There is no bias correction in the paper, nor here: v starts at tau^2 and the first steps are
    short. Implementations that correct it step differently, and so do those with tau inside of
    the root, which ``tau_inside: true`` gives (m / sqrt(v + tau), v from 0).

    Deviations from the paper: D is a mean by size unless ``weights: uniform``; plain in the paper.

    Examples
    --------
    With tau 0 the first step is (1 - beta1) / sqrt(1 - beta2) = 0.1 / 0.1 times server_lr sign(D):

    >>> import numpy as np
    >>> from rayfed.messages import Reply
    >>> algorithm = FedAdam(server_lr=0.5, tau=0.0)
    >>> round = algorithm.round(algorithm.init(np.zeros(2)))
    >>> ask, mean = next(round), {"delta": np.array([3.0, -2.0])}
    >>> try:
    ...     round.send(Reply(np.arange(2), np.ones(2), mean, {}, np.ones(2, int)))
    ... except StopIteration as end:
    ...     print(end.value[0]["x"].round(12))
    [-0.5  0.5]
    """

    name: ClassVar[str] = "fedadam"

    beta1: Annotated[float, Interval(ge=0, lt=1)] = 0.9
    beta2: Annotated[float, Interval(ge=0, lt=1)] = 0.99

    def first_moment(self, m: Array, D: Array) -> Array:
        """Return beta1 m + (1 - beta1) D."""
        return self.beta1 * m + (1 - self.beta1) * D

    def second_moment(self, v: Array, D: Array) -> Array:
        """Return beta2 v + (1 - beta2) D^2."""
        return self.beta2 * v + (1 - self.beta2) * (D * D)
