"""Share of clients served by the model at least as well as by one of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from rayfed.clients import Clients
from rayfed.clients.clients import loss_alone
from rayfed.core.arrays import Array
from rayfed.core.columns import Column
from rayfed.core.needs import MODEL
from rayfed.measures.base import Measure, MeasureView
from rayfed.messages import State, Upload


@dataclass(frozen=True, kw_only=True)
class Appeal(Measure):
    """Share of clients with no better model from training alone.

    Cho, Jhunjhunwala, Li, Smith, Joshi, "Maximizing Global Model Appeal in Federated Learning",
    TMLR 2024: those with F_k(x) <= rho_k, the loss of a model that client k has trained alone,
    from the first model and with the local solver of the algorithm. Where there is no global
    model, F_k is that of the models which clients use. Its state are the rho_k, and the round of
    whose rows they are: where rows change, clients train alone again.

    Parameters
    ----------
    steps : int
        Local steps that clients train alone.
    """

    name: ClassVar[str] = "appeal"
    columns: ClassVar[tuple[Column, ...]] = (
        Column(
            "appeal", "global model appeal", better="higher",
            about="Share of the evaluated clients with a loss of the model at most that "
            "of a model which they have trained alone, for `steps` local steps.",
        ),
    )  # fmt: skip

    steps: Annotated[int, Ge(1)]

    def alone(self, clients: Clients, x: Array, steps: Array) -> Upload:
        """Return F_i (K,) at the models that local steps from x (p,) lead to."""
        return Upload({"loss": loss_alone(clients, x, int(steps))})

    def measure(self, view: MeasureView, known: State) -> tuple[Mapping[str, float], State]:
        """Return the share, and the losses of the clients' models alone."""
        rows = view.data.shards
        if "alone" not in known or rows.at(int(known.get("round", 0))).version != rows.version:
            send = {"x": view.first, "steps": np.array(self.steps)}
            alone = view.ask("alone", send, {"loss": 1}, solving=True).each["loss"]
            known = {"alone": alone, "round": np.array(view.round)}
        if MODEL in view.algorithm.gives:
            losses = view.losses(view.model, view.clients)
        else:
            losses = view.own_losses()
        return {"appeal": float(np.mean(losses <= known["alone"]))}, known
