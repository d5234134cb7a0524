"""Distance of the model from the optimum."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rayfed.core.columns import Column
from rayfed.measures.base import Measure, MeasureView, Need
from rayfed.messages import State


@dataclass(frozen=True, kw_only=True)
class Distance(Measure):
    """Distance of the model from the optimum."""

    name: ClassVar[str] = "distance"
    needs: ClassVar[Set[Need]] = frozenset({"optimum", "fixed rows"})
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
