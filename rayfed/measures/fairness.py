"""Fairness: how evenly a model serves the clients."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import ClassVar

from rayfed.core.columns import Column, names
from rayfed.measures.base import Measure, MeasureView, Need
from rayfed.messages import State
from rayfed.numerics.evenness import evenness


@dataclass(frozen=True, kw_only=True)
class Fairness(Measure):
    """Spread, worst decile and Jain's index of the clients' accuracies."""

    name: ClassVar[str] = "fairness"
    needs: ClassVar[Set[Need]] = frozenset({"accuracy"})
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
        """Return how evenly clients are served."""
        return dict(zip(names(self.columns), evenness(view.accuracy), strict=True)), known
