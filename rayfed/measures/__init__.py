"""Measures: what evaluated rows say about a run beside its losses and accuracies."""

from rayfed.measures.base import Answer, Measure, MeasureView, Method, Need, Optimum

__all__ = ["Answer", "Measure", "MeasureView", "Method", "Need", "Optimum"]
