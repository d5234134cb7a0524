"""FedRolex: a window of channels that rolls by one in each round.

S. Alam, L. Liu, M. Yan, M. Zhang, "FedRolex: Model-Heterogeneous Federated Learning with Rolling
Sub-Model Extraction", NeurIPS 2022, https://arxiv.org/abs/2212.01548, Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rayfed.algorithms.heterofl import HeteroFL
from rayfed.core.arrays import Ints


@dataclass(frozen=True, kw_only=True)
class FedRolex(HeteroFL):
    """Parts of a model that roll over all its channels (Alam, Liu, Yan, Zhang 2022).

    As `HeteroFL`, but in round t a client has the channels t - 1, t, ... modulo k of each hidden
    layer of k channels, so that all parameters are trained by clients of any capacity.

    Notes
    -----
    Deviations from the paper: those of `HeteroFL`, and the number of channels, which is rounded up
    so that no layer is empty; the paper rounds down, its code up.

    Examples
    --------
    >>> FedRolex().channels(layer=0, width=4, size=2, kind=0, round=4)
    array([3, 0])
    """

    name: ClassVar[str] = "fedrolex"

    def channels(self, layer: int, width: int, size: int, kind: int, round: int) -> Ints:
        """Return the window (size,) of channels of a hidden layer in a round."""
        return (np.arange(size) + round - 1) % width
