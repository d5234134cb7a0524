"""FedBN: normalisation layers of their own for clients with different features.

X. Li, M. Jiang, X. Zhang, M. Kamp, Q. Dou, "FedBN: Federated Learning on Non-IID Features via Local
Batch Normalization", ICLR 2021, https://arxiv.org/abs/2102.07623, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rayfed.algorithms.base import Coded
from rayfed.algorithms.fedper import FedPer
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import OWN_STATISTICS, Terms
from rayfed.problems.layers import Layer


@dataclass(frozen=True, kw_only=True)
class FedBN(FedPer):
    """FedAvg on all layers but those that normalise, which stay with the client (Li et al. 2021).

    Scales, shifts and running statistics of normalisation layers are personal layers as in
    `FedPer`. In local steps BatchNorm normalises by the minibatch and moves the running statistics
    (s,) of the client towards its mean and variance; the solver moves everything else. Clients are
    scored with the running statistics.

    Parameters
    ----------
    personal_layers : tuple of str, optional
        Names of the layers that stay with the client, patterns with ``*``; all parameters and
        statistics of normalisation layers if None. Statistics stay there in any case.

    Notes
    -----
    The notes of `FedPer` on personal layers hold here. Rows that fill up a minibatch do not count
    in its statistics.

    Deviations from the paper: the server learning rate, 1 in the paper; clients are drawn and
    weighted as in the scenario (in the paper all clients take part, with equal weights).

    Examples
    --------
    >>> import numpy as np
    >>> layers = [Layer("conv.weight", 0, 9), Layer("bn.weight", 9, 10, "normalisation")]
    >>> FedBN().on_layers(layers).client_state(np.arange(10.0))["own"]
    array([9.])
    """

    name: ClassVar[str] = "fedbn"
    coded: ClassVar[Coded] = {"delta": "any"}
    gives: ClassVar[Terms] = FedPer.gives | {OWN_STATISTICS}

    def own_layers(self, layers: Sequence[Layer]) -> Sequence[Layer]:
        """Return the layers that are personal, statistics among them.

        Raises
        ------
        ScenarioError
            If nothing is said and the model does not normalise.
        """
        if self.personal_layers is None:
            own = [layer for layer in layers if layer.kind != "weights"]
            if not own:
                raise ScenarioError("", "the model has no normalisation layers; use fedper")
            return own
        named = super().own_layers(layers)
        return [layer for layer in layers if layer in named or layer.kind == "statistics"]
