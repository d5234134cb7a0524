"""Measures: what evaluated rows say about a run beside its losses and accuracies."""

from rayfed.measures.base import Answer, Measure, Method, Need, Optimum, View

__all__ = ["Answer", "Measure", "Method", "Need", "Optimum", "View"]
