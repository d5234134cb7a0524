"""HetLoRA: low-rank adapters of different ranks, with means by their norms.

Y. J. Cho, L. Liu, Z. Xu, A. Fahrezi, G. Joshi, "Heterogeneous LoRA for Federated Fine-tuning of
On-Device Foundation Models", EMNLP 2024, https://arxiv.org/abs/2401.06432, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rayfed.algorithms.base import Round
from rayfed.algorithms.heterofl import HeteroFL
from rayfed.core.arrays import Array
from rayfed.core.needs import ADAPTERS, FRESH, Terms
from rayfed.messages import Ask, State, Upload
from rayfed.problems.adapters import Adapters
from rayfed.problems.layers import Layer

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class HetLoRA(HeteroFL):
    """Adapters of different ranks, averaged with zeros and by norm (Cho et al. 2024).

    The model is pairs A (r, d), B (e, r) of adapters. A client of capacity c (``clients.capacity``)
    downloads the first ceil(c r) rows of each A and columns of each B (truncation), trains them and
    uploads both with the norm s = ||B A|| (Frobenius). The server fills them with zeros to rank r
    (zero-padding) and takes the mean of each pair with weights w_i s_i (sparsity-weighted
    aggregation).

    Notes
    -----
    Means with zeros shrink the ranks that few clients of a round have. A rank of no client becomes
    0 in A and B and is no longer trained. ``heterofl`` on the same adapters takes means over the
    clients that have a rank. Bytes are those of `HeteroFL`, and of the norms in proportion.

    Of the paper these are the truncation, the zero-padding and the sparsity-weighted aggregation,
    whose weight is ||S_i|| / Z with S_i the singular values of B A and Z the sum over the clients;
    ||S_i|| is the Frobenius norm of B A, taken for each pair. Its rank self-pruning is not
    included, a penalty on the norms of the last ranks in local training after which a client may
    go on with fewer: ranks are those of the capacities in all rounds.

    Deviations from the paper: the factor w_i of the weights, which is by size unless
    ``weights: uniform``; the paper weighs by norms alone. A factor alpha / r of the module is that
    of the full rank for all clients.

    Examples
    --------
    Two clients, of which the second has one of two ranks; d = e = 1, and x is A and then B:

    >>> from rayfed.testing import reply
    >>> layers = Layer("lora_A", 0, 2, shape=(2, 1)), Layer("lora_B", 2, 4, shape=(1, 2))
    >>> method = HetLoRA().on_parts(layers, np.array([1.0, 0.5]), seed=0)
    >>> method.part(0, round=1).astype(int)
    array([1, 0, 1, 0])
    >>> mean = {"padded": np.array([4.0, 1.0, 2.0, 1.0]), "norm": np.array([2.0])}
    >>> round = method.round({"x": np.zeros(4)})
    >>> ask = next(round)
    >>> try:
    ...     round.send(reply(mean))
    ... except StopIteration as end:
    ...     print(end.value[0]["x"])
    [2.  0.5 1.  0.5]
    """

    name: ClassVar[str] = "hetlora"
    needs: ClassVar[Terms] = HeteroFL.needs | {ADAPTERS, FRESH}

    def divided(self, layers: Sequence[Layer]) -> Adapters:
        """Return the adapters that are the model."""
        return Adapters.of(layers)

    def train(self, clients: Clients, x: Array) -> Upload:
        """Client function: local steps on parts of x (p,); upload s (A, B) and s = ||B A||."""
        _, local = self.trained(clients, x)
        norm = self.adapters.norms(local.x)
        padded = self.adapters.spread(norm) * local.x
        return Upload({"padded": padded, "norm": norm}, loss=local.loss)

    def round(self, state: State) -> Round:
        """Server function: x <- x - server_lr * (x - sum_i w_i s_i x_i / sum_i w_i s_i)."""
        x = state["x"]
        up = {"padded": x.size, "norm": len(self.adapters.pairs)}
        reply = yield Ask("train", send={"x": x}, up=up, share=self.share)
        norm = self.adapters.spread(reply.mean["norm"])
        mean = np.divide(reply.mean["padded"], norm, out=x.copy(), where=norm > 0)
        covered = self.weight(reply) > 0
        return {"x": x - self.server_lr * (x - mean)}, {"covered": covered.mean()}

    @property
    def adapters(self) -> Adapters:
        """The adapters that are the model."""
        assert isinstance(self._known.chain, Adapters)
        return self._known.chain
