"""FedPer: the last layers of every client's model are its own.

M. G. Arivazhagan, V. Aggarwal, A. K. Singh, S. Choudhary, "Federated Learning with Personalization
Layers", 2019, https://arxiv.org/abs/1912.00818, Algorithms 1 and 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from annotated_types import MinLen

from rayfed.algorithms.base import Coded, Round
from rayfed.algorithms.fedavg import FedAvg
from rayfed.algorithms.split import LayerSplit
from rayfed.core.arrays import Array
from rayfed.core.errors import ScenarioError, listed
from rayfed.core.needs import AVERAGED, LAYERS, ONE_ASK, OWN_MODELS, Terms
from rayfed.messages import Ask, ByClient, State, Upload
from rayfed.problems.layers import Layer, head, matching

if TYPE_CHECKING:
    from rayfed.clients import Clients
    from rayfed.datasets.shards import Shards
    from rayfed.population import Population
    from rayfed.problems.objective import Objective


@dataclass(frozen=True, kw_only=True)
class FedPer(FedAvg):
    """FedAvg on the base; the personal layers stay with the client (Arivazhagan et al. 2019).

    The model is a base (s,) and personal layers (p - s,). A participant joins the broadcast base
    and its own personal layers, takes its local steps on both, uploads the change of the base, and
    keeps its personal layers. The server averages bases as FedAvg does.

    Parameters
    ----------
    personal_layers : tuple of str, optional
        Names of the layers that stay with the client, patterns with ``*``; the weights and biases
        of the last module if None.

    Notes
    -----
    Personal layers are neither sent nor counted. There is no global model: ``loss`` and
    ``accuracy`` are those of the base joined with each client's own layers. A client that has not
    taken part has the first personal layers. In ``model.npz`` they stand in place of the personal
    ones.

    Deviations from the paper: the server learning rate, 1 in the paper; clients are drawn and
    weighted as in the scenario (in the paper all clients take part in every round).

    Examples
    --------
    >>> import numpy as np
    >>> from rayfed.problems.mlp import MLP
    >>> algorithm = FedPer().on_layers(MLP(hidden=(2,)).layers(4, 3))
    >>> algorithm.client_state(np.zeros(17))["own"].shape  # the output's (2 + 1) x 3
    (9,)
    """

    name: ClassVar[str] = "fedper"
    coded: ClassVar[Coded] = {"delta": "any"}
    needs: ClassVar[Terms] = FedAvg.needs | {LAYERS}
    gives: ClassVar[Terms] = frozenset({OWN_MODELS, ONE_ASK, AVERAGED})

    personal_layers: Annotated[tuple[str, ...], MinLen(1)] | None = None

    _split: LayerSplit = field(default=LayerSplit(()), init=False)

    def bound(self, shards: Shards, population: Population, objective: Objective) -> Self:
        """Return the algorithm that knows the layers of the model.

        Raises
        ------
        ScenarioError
            If a pattern matches no layer, or all layers are personal.
        """
        return self.on_layers(objective.problem.layers(shards.features, shards.classes))

    def on_layers(self, layers: Sequence[Layer]) -> Self:
        """Return the algorithm for the layers of a model."""
        try:
            own = self.own_layers(layers)
            if len(own) == len(layers):
                names = listed(layer.name for layer in layers)
                text = f"all layers would stay with the client; name some of {names}"
                raise ScenarioError("", text)
        except ScenarioError as error:
            raise error.under("personal_layers") from None
        bound = copy(self)
        object.__setattr__(bound, "_split", LayerSplit.of(layers, own))
        return bound

    def own_layers(self, layers: Sequence[Layer]) -> Sequence[Layer]:
        """Return the layers that are personal."""
        if self.personal_layers is None:
            return head(layers)
        return matching(layers, self.personal_layers)

    def client_state(self, x0: Array) -> State:
        """Return every client's first personal layers (p - s,)."""
        return {"own": self._split.own(x0[None, :])[0]}

    def train(self, clients: Clients, base: Array) -> Upload:
        """Client function: local steps on all layers; upload the change of the base (K, s)."""
        local = clients.solve(self._split.join(base[None, :], clients.state["own"]))
        delta = base - self._split.shared(local.x)
        return Upload({"delta": delta}, {"own": self._split.own(local.x)}, loss=local.loss)

    def round(self, state: State) -> Round:
        """Server function: base <- base - server_lr * mean_i Delta_i."""
        x = state["x"][None, :]
        base = self._split.shared(x)
        up = {"delta": base.size}
        reply = yield Ask("train", send={"base": base[0]}, up=up, passes=self.passes)
        base = base - self.server_lr * reply.mean["delta"]
        return {"x": self._split.join(base, self._split.own(x))[0]}, {}

    @property
    def passes(self) -> float | ByClient:
        """Computing in addition to the local steps, in passes over the rows."""
        return 0.0

    def models(self, clients: Clients, x: Array) -> Array:
        """Return the base joined with the clients' own layers (K, p)."""
        return self._split.join(self._split.shared(x[None, :]), clients.state["own"])
