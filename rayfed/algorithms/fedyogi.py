"""FedYogi: Yogi at the server.

Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan, "Adaptive Federated Optimization",
ICLR 2021, https://arxiv.org/abs/2003.00295, Algorithm 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rayfed.algorithms.fedadam import FedAdam
from rayfed.core.arrays import Array


@dataclass(frozen=True, kw_only=True)
class FedYogi(FedAdam):
    """FedAdam whose second moment changes by a bounded amount (Reddi et al. 2021).

    All as FedAdam, but v <- v - (1 - beta2) D^2 sign(v - D^2): where D^2 is small v falls slowly,
    and steps grow slowly.

    Notes
    -----
    tau and ``tau_inside`` as in FedAdam.

    Deviations from the paper: D is a mean by size unless ``weights: uniform``; plain in the paper.

    Examples
    --------
    From v = 4, D^2 = 1 takes off a hundredth of 1, where Adam would take off a hundredth of 3:

    >>> v, D = np.array([4.0]), np.array([1.0])
    >>> FedYogi().second_moment(v, D), FedAdam().second_moment(v, D)
    (array([3.99]), array([3.97]))
    """

    name: ClassVar[str] = "fedyogi"

    def second_moment(self, v: Array, D: Array) -> Array:
        """Return v - (1 - beta2) D^2 sign(v - D^2)."""
        moved: Array = v - (1 - self.beta2) * (D * D) * np.sign(v - D * D)
        return moved
