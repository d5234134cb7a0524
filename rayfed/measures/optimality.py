"""Optimality: distance of a model from the optimum of F and from a stationary point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rayfed.clients import Clients
from rayfed.core.arrays import Array
from rayfed.core.columns import Column
from rayfed.core.needs import GRADIENTS, OPTIMUM, Terms
from rayfed.measures.base import Measure, MeasureView
from rayfed.messages import State, Upload


@dataclass(frozen=True, kw_only=True)
class Distance(Measure):
    """Distance of the model from the optimum."""

    name: ClassVar[str] = "distance"
    needs: ClassVar[Terms] = frozenset({OPTIMUM})
    columns: ClassVar[tuple[Column, ...]] = (
        Column(
            "distance", "distance from the optimum", better="lower",
            about="Euclidean distance of the model from x*; of many minimisers x* is the one "
            "nearest to the first model.",
        ),
    )  # fmt: skip

    def measure(self, view: MeasureView, known: State) -> tuple[Mapping[str, float], State]:
        """Return ``||x - x*||``."""
        assert view.optimum is not None  # it is needed
        return {"distance": float(np.linalg.norm(view.model - view.optimum.x))}, known


@dataclass(frozen=True, kw_only=True)
class Gradient(Measure):
    """Norm of the gradient of F at the model of the row."""

    name: ClassVar[str] = "gradient"
    needs: ClassVar[Terms] = frozenset({GRADIENTS})
    columns: ClassVar[tuple[Column, ...]] = (
        Column(
            "objective_gradient_norm", "norm of the gradient of F", better="lower",
            about="Norm of the gradient of F at the model of the row; of some clients an estimate.",
        ),
    )  # fmt: skip

    def slope(self, clients: Clients, x: Array) -> Upload:
        """Client function: grad F_i(x), (K, p)."""
        return Upload({"slope": clients.gradient(x)})

    def measure(self, view: MeasureView, known: State) -> tuple[Mapping[str, float], State]:
        """Return the norm of the mean of the clients' gradients, or of their sum."""
        reply = view.mean("slope", {"x": view.model}, {"slope": view.model.size})
        objective, weights = view.data.objective, float(reply.weights.sum())
        count = len(view.clients)
        scale = weights / objective.normaliser(weights, count)
        norm = float(np.linalg.norm(reply.mean["slope"].astype(np.float64)))
        return {"objective_gradient_norm": scale * norm}, known
