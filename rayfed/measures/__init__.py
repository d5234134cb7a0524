"""Measures: what evaluated rows say about a run beside its losses and accuracies."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import exported
from rayfed.measures.base import Answer, Measure, MeasureView, Method, Need, Optimum

__all__ = ["Answer", "Measure", "MeasureView", "Method", "Need", "Optimum"]

if TYPE_CHECKING:  # for editors: `make exports` writes it
    from rayfed.measures.appeal import Appeal as Appeal
    from rayfed.measures.base import Measure as Measure
    from rayfed.measures.fairness import Fairness as Fairness
    from rayfed.measures.fairness import Honest as Honest
    from rayfed.measures.heterogeneity import Heterogeneity as Heterogeneity
    from rayfed.measures.layers import Layers as Layers
    from rayfed.measures.optimality import Distance as Distance
    from rayfed.measures.optimality import Gradient as Gradient
    from rayfed.measures.path import Path as Path
    from rayfed.measures.skew import Skew as Skew
else:
    __getattr__, __dir__ = exported("measures")
