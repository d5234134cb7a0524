"""Measures: further columns of evaluated rows."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import lazy
from rayfed.measures.base import Answer, MeasureView, Method, Optimum, Predictions, Use

__all__ = [
    "Answer",
    "MeasureView",
    "Method",
    "Optimum",
    "Predictions",
    "Use",
]

if TYPE_CHECKING:  # for editors and type checkers; a test compares the list
    from rayfed.measures.appeal import Appeal as Appeal
    from rayfed.measures.base import Measure as Measure
    from rayfed.measures.fairness import ByCapacity as ByCapacity
    from rayfed.measures.fairness import Fairness as Fairness
    from rayfed.measures.fairness import Honest as Honest
    from rayfed.measures.heterogeneity import Heterogeneity as Heterogeneity
    from rayfed.measures.layers import Layers as Layers
    from rayfed.measures.metrics import Metrics as Metrics
    from rayfed.measures.nodes import Nodes as Nodes
    from rayfed.measures.optimality import Distance as Distance
    from rayfed.measures.optimality import Gradient as Gradient
    from rayfed.measures.path import Path as Path
    from rayfed.measures.skew import Skew as Skew
else:
    __getattr__, __dir__ = lazy(__name__)
