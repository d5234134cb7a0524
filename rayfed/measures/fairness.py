"""Fairness: evenness of the model's quality over clients, and over honest ones."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rayfed.core.columns import Column, names
from rayfed.measures.base import Measure, MeasureView, Use
from rayfed.messages import State
from rayfed.numerics.evenness import evenness


@dataclass(frozen=True, kw_only=True)
class Fairness(Measure):
    """Spread, worst decile and Jain's index of the clients' accuracies."""

    name: ClassVar[str] = "fairness"
    uses: ClassVar[Set[Use]] = frozenset({"accuracy"})
    columns: ClassVar[tuple[Column, ...]] = (
        Column(
            "accuracy_spread", "spread of the clients' accuracies", better="lower",
            about="Standard deviation over clients of their accuracy under the global model.",
        ),
        Column(
            "accuracy_worst_decile", "accuracy of the worst-served tenth", better="higher",
            about="Mean accuracy over the worst tenth of the clients, rounded up.",
        ),
        Column(
            "accuracy_jain", "evenness of the accuracies (Jain)", better="higher",
            about="Jain's fairness index (sum a)^2 / (K sum a^2): 1 if all K accuracies are equal, "
            "1/K if one client has everything.",
        ),
    )  # fmt: skip

    def measure(self, view: MeasureView, known: State) -> tuple[Mapping[str, float], State]:
        """Return the evenness over clients."""
        return dict(zip(names(self.columns), evenness(view.accuracy), strict=True)), known


@dataclass(frozen=True, kw_only=True)
class ByCapacity(Measure):
    """Mean accuracy over the clients of the least and of the largest capacity."""

    name: ClassVar[str] = "capacity"
    uses: ClassVar[Set[Use]] = frozenset({"accuracy"})
    columns: ClassVar[tuple[Column, ...]] = (
        Column(
            "accuracy_least_capacity", "accuracy of the smallest devices", better="higher",
            about="Mean over the evaluated clients of the least `clients.capacity` of their "
            "accuracy under the global model.",
        ),
        Column(
            "accuracy_most_capacity", "accuracy of the largest devices", better="higher",
            about="The same over the evaluated clients of the largest capacity.",
        ),
    )  # fmt: skip

    def measure(self, view: MeasureView, known: State) -> tuple[Mapping[str, float], State]:
        """Return the quality at both ends of the capacities; NaN where none has rows."""
        scored = np.isfinite(view.accuracy)
        found, capacity = view.accuracy[scored], view.population.capacities()[view.clients[scored]]
        if not len(found):
            return dict.fromkeys(names(self.columns), np.nan), known
        ends = (found[capacity == end].mean() for end in (capacity.min(), capacity.max()))
        return dict(zip(names(self.columns), map(float, ends), strict=True)), known


@dataclass(frozen=True, kw_only=True)
class Honest(Measure):
    """Mean accuracy over the honest clients, and over their worst-served tenth."""

    name: ClassVar[str] = "honest"
    uses: ClassVar[Set[Use]] = frozenset({"accuracy"})
    columns: ClassVar[tuple[Column, ...]] = (
        Column(
            "honest_accuracy", "accuracy of the honest clients", better="higher",
            about="Mean over clients without a fault of their accuracy under the global model.",
        ),
        Column(
            "honest_worst_decile", "accuracy of the worst-served honest tenth", better="higher",
            about="Mean accuracy over the worst tenth of the clients without a fault, rounded up.",
        ),
    )  # fmt: skip

    def measure(self, view: MeasureView, known: State) -> tuple[Mapping[str, float], State]:
        """Return the quality for honest clients; NaN if none is evaluated."""
        found = view.accuracy[view.honest]
        found = np.sort(found[np.isfinite(found)])
        if not len(found):
            return {"honest_accuracy": np.nan, "honest_worst_decile": np.nan}, known
        worst = found[: -(-len(found) // 10)]
        means = {"honest_accuracy": float(found.mean()), "honest_worst_decile": float(worst.mean())}
        return means, known
