"""HeteroFL: clients train the first channels of each hidden layer, as many as they can.

E. Diao, J. Ding, V. Tarokh, "HeteroFL: Computation and Communication Efficient Federated Learning
for Heterogeneous Clients", ICLR 2021, https://arxiv.org/abs/2010.01264, Algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from rayfed.algorithms.base import Algorithm, Round
from rayfed.algorithms.fedavg import FedAvg
from rayfed.core.arrays import Array, Bools, Floats, Ints
from rayfed.core.columns import Column
from rayfed.core.needs import (
    EXACT_DOWNLOADS,
    EXACT_UPLOADS,
    GRADIENTS,
    LAYERS,
    MEAN,
    OWN_PART,
    READABLE,
    Terms,
)
from rayfed.core.rng import Key
from rayfed.messages import Ask, Reply, State, Upload
from rayfed.problems.adapters import Adapters
from rayfed.problems.base import Batch
from rayfed.problems.chain import Chain
from rayfed.problems.layers import Layer

if TYPE_CHECKING:
    from rayfed.clients import Clients
    from rayfed.datasets.shards import Shards
    from rayfed.population import Population
    from rayfed.problems.objective import Objective
    from rayfed.solvers.base import Local

_ROUNDING = 1e-9
"""Of a number of channels: 0.1 of 30 are 3."""


@dataclass(frozen=True, eq=False)
class Parts:
    """The model and the clients of a run.

    Parameters
    ----------
    chain : Chain or Adapters
        The layers of the model.
    capacities : (C,) array of float
        Of the classes of clients, ascending.
    classes : (N,) array of int
        The class of each client.
    key : Key
        Of random channels.
    """

    chain: Chain | Adapters
    capacities: Floats
    classes: Ints
    key: Key


@dataclass(frozen=True, kw_only=True)
class HeteroFL(FedAvg):
    """Models of different widths, each the corner of a wider one (Diao, Ding, Tarokh 2021).

    A client of capacity r (``clients.capacity``) has the parameters between the first ceil(r k)
    channels of each hidden layer of k channels, and all inputs and outputs. It downloads them,
    takes its local steps on them, and uploads their change. The server adds the mean change of a
    parameter over the clients that have it. A parameter that no reply has stays as it is.

    Notes
    -----
    Bytes, and the time of a local step, are those of the model times the share of its parameters
    that a client has. The server needs sums over all clients alone: the weights of the clients that
    have a parameter follow from their capacities. For parts of one client a secure sum would hide
    nothing, so secure sums are refused.

    Deviations from the paper: the server learning rate, 1 in the paper, and the mean over clients,
    which is by size unless ``weights: uniform`` and plain in the paper. Its scaler (activations
    divided by r in training), its static batch normalisation and its masked cross-entropy are not
    included. Models are chains of fully connected and convolutional layers, or adapters, the ranks
    of which are channels.

    Examples
    --------
    Two clients (K, p) = (2, 4), of which the second has the first of two hidden units:

    >>> from rayfed.problems.mlp import MLP
    >>> from rayfed.testing import reply
    >>> layers = MLP(hidden=(2,), intercept=False).layers(1, 1)
    >>> method = HeteroFL().on_parts(layers, np.array([1.0, 0.5]), seed=0)
    >>> round = method.round({"x": np.zeros(4)})
    >>> next(round).shares(np.arange(2))
    array([1. , 0.5])
    >>> mean = np.mean([[1.0, 1.0, 1.0, 1.0], [3.0, 0.0, 3.0, 0.0]], axis=0)
    >>> try:
    ...     round.send(reply({"delta": mean}))
    ... except StopIteration as end:
    ...     print(end.value[0]["x"])
    [-2. -1. -2. -1.]
    """

    name: ClassVar[str] = "heterofl"
    needs: ClassVar[Terms] = FedAvg.needs | {
        EXACT_DOWNLOADS, EXACT_UPLOADS, GRADIENTS, LAYERS, MEAN, OWN_PART, READABLE,
    }  # fmt: skip
    gives: ClassVar[Terms] = Algorithm.gives
    diagnostics: ClassVar[tuple[Column, ...]] = (
        Column("covered", about="Share of the parameters that a reply of the round had."),
    )

    _parts: Parts | None = field(default=None, init=False, repr=False, compare=False)

    def bound(self, shards: Shards, population: Population, objective: Objective) -> Self:
        """Return the algorithm that knows the layers of the model and the clients' capacities.

        Raises
        ------
        ScenarioError
            If the model is no chain of fully connected and convolutional layers.
        """
        layers = objective.problem.layers(shards.features, shards.classes)
        return self.on_parts(layers, population.capacities(), population.seed)

    def on_parts(self, layers: Sequence[Layer], capacities: Floats, seed: int) -> Self:
        """Return the algorithm for the layers of a model and the capacities (N,) of clients."""
        values, classes = np.unique(capacities, return_inverse=True)
        bound = copy(self)
        chain = self.divided(layers)
        parts = Parts(chain, values, classes.astype(np.int16), Key(seed, self.name))
        object.__setattr__(bound, "_parts", parts)
        return bound

    def divided(self, layers: Sequence[Layer]) -> Chain | Adapters:
        """Return the chain or the adapters that the layers of a model are."""
        adapted = all("lora_" in layer.name for layer in layers)
        return Adapters.of(layers) if adapted else Chain.of(layers)

    def channels(self, layer: int, width: int, size: int, kind: int, round: int) -> Ints:
        """Return the channels (size,) of a hidden layer that a class of clients trains.

        Parameters
        ----------
        layer, width : int
            Number of the hidden layer, from 0, and of its channels.
        size : int
            Number of channels that the class trains.
        kind : int
            Number of the class: clients of the same capacity, from the smallest.
        round : int
            From 1.
        """
        return np.arange(size)

    def part(self, kind: int, round: int) -> Bools:
        """Return the mask (p,) of the parameters that a class of clients has in a round."""
        chain, capacity = self._known.chain, self._known.capacities[kind]
        sizes = [math.ceil(capacity * width - _ROUNDING) for width in chain.hidden]
        return chain.part(
            [
                self.channels(layer, width, size, kind, round)
                for layer, (width, size) in enumerate(zip(chain.hidden, sizes, strict=True))
            ]
        )

    def train(self, clients: Clients, x: Array) -> Upload:
        """Client function: local steps on parts of x (p,); upload Delta (K, p), 0 elsewhere."""
        start, local = self.trained(clients, x)
        return Upload({"delta": start - local.x}, loss=local.loss)

    def trained(self, clients: Clients, x: Array) -> tuple[Array, Local]:
        """Return the clients' parts (K, p) of a model x (p,), and them after local steps."""
        kinds = self._known.classes[clients.ids].tolist()
        masks = np.stack([self.part(kind, clients.round) for kind in kinds])
        part = clients.problem.arrays({"part": masks.astype(clients.shards.dtype)})["part"]

        def in_part(y: Array, batches: Sequence[Batch], index: Ints) -> tuple[Array, Array]:
            loss, g = clients.problem.value_and_gradient(y, batches[0])
            return loss, g * part[index]

        start = x * part
        return start, clients.solve(start, gradient=in_part)

    def round(self, state: State) -> Round:
        """Server function: x <- x - server_lr * (sum_i w_i Delta_i) / (sum_i w_i m_i)."""
        x = state["x"]
        reply = yield Ask("train", send={"x": x}, up={"delta": x.size}, share=self.share)
        weight = self.weight(reply)
        covered = weight > 0
        scale = np.divide(reply.weights.sum(), weight, out=np.zeros_like(weight), where=covered)
        mean = scale.astype(x.dtype) * reply.mean["delta"]
        return {"x": x - self.server_lr * mean}, {"covered": covered.mean()}

    def share(self, ids: Ints) -> Floats:
        """Return the share (K,) of the parameters that clients have, which no round changes."""
        shares = [self.part(kind, 1).mean() for kind in range(len(self._known.capacities))]
        return np.array(shares)[self._known.classes[ids]]

    def weight(self, reply: Reply) -> Floats:
        """Return the sum (p,) of the weights of the clients that have each parameter."""
        kinds = self._known.classes[reply.ids]
        rounds = reply.round - (reply.staleness if len(reply.staleness) else np.zeros_like(kinds))
        total = np.zeros(self.part(0, 1).size)
        for kind, round in sorted(set(zip(kinds.tolist(), rounds.tolist(), strict=True))):
            those = (kinds == kind) & (rounds == round)
            total += reply.weights[those].sum() * self.part(kind, round)
        return total

    @property
    def _known(self) -> Parts:
        assert self._parts is not None  # the plan has called `bound`
        return self._parts
