"""Federated dropout: channels drawn at random in each round.

S. Caldas, J. Konecny, H. B. McMahan, A. Talwalkar, "Expanding the Reach of Federated Learning by
Reducing Client Resource Requirements", 2018, https://arxiv.org/abs/1812.07210, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rayfed.algorithms.heterofl import HeteroFL
from rayfed.core.arrays import Ints


@dataclass(frozen=True, kw_only=True)
class FederatedDropout(HeteroFL):
    """Random parts of a model (Caldas, Konecny, McMahan, Talwalkar 2018).

    As `HeteroFL`, but the channels of each hidden layer are drawn anew in each round.

    Notes
    -----
    Deviations from the paper: those of `HeteroFL`. Clients of the same capacity have the same
    channels in a round, and shares differ by capacity; in the paper all clients train parts of the
    same size. Its compression of messages is left to ``uplink``, which parts of a model cannot
    have.

    Examples
    --------
    >>> from rayfed.problems.mlp import MLP
    >>> layers = MLP(hidden=(4,)).layers(2, 3)
    >>> method = FederatedDropout().on_parts(layers, np.array([0.5]), seed=0)
    >>> len(set(method.channels(layer=0, width=4, size=2, kind=0, round=1)))
    2
    """

    name: ClassVar[str] = "federated-dropout"

    def channels(self, layer: int, width: int, size: int, kind: int, round: int) -> Ints:
        """Return random channels (size,) of a hidden layer in a round."""
        key = self._known.key.sub(f"{layer}/{kind}")
        return np.asarray(key.permutation(width, round=round)(np.arange(size)))
