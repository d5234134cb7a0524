"""FedAdagrad: Adagrad at the server.

Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan, "Adaptive Federated Optimization",
ICLR 2021, https://arxiv.org/abs/2003.00295, Algorithm 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rayfed.algorithms.adaptive import Adaptive
from rayfed.core.arrays import Array


@dataclass(frozen=True, kw_only=True)
class FedAdagrad(Adaptive):
    """FedAvg whose server steps as Adagrad (Reddi et al. 2021).

    Client function as FedAvg's. With D the mean pseudo-gradient (p,) the server steps
    v <- v + D^2, x <- x - server_lr D / (sqrt(v) + tau), coordinate by coordinate.

    Notes
    -----
    Two forms are in use. Here, and in the paper, tau stands outside of the root and v starts at
    tau^2; ``tau_inside: true`` is D / sqrt(v + tau) with v from 0, the form of the code of
    FedExP's authors (their tau: 0.01). With tau 0 the first step is server_lr sign(D) in both.

    Deviations from the paper: D is a mean by size unless ``weights: uniform``; plain in the paper.
    (Its first moment has beta1 = 0 for this server.)

    Examples
    --------
    >>> import numpy as np
    >>> from rayfed.messages import Reply
    >>> algorithm = FedAdagrad(server_lr=0.1, tau=0.0)
    >>> round = algorithm.round(algorithm.init(np.zeros(3)))
    >>> ask, mean = next(round), {"delta": np.array([4.0, -0.5, 0.0])}
    >>> try:
    ...     round.send(Reply(np.arange(2), np.ones(2), mean, {}, np.ones(2, int)))
    ... except StopIteration as end:
    ...     print(end.value[0]["x"])
    [-0.1  0.1  0. ]
    """

    name: ClassVar[str] = "fedadagrad"

    def second_moment(self, v: Array, D: Array) -> Array:
        """Return v + D^2."""
        grown: Array = v + D * D
        return grown
