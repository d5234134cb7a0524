"""Drift: how the rows of clients change from round to round; the kinds are in `rayfed.drifts`."""

from rayfed.datasets.drift.base import Drift

__all__ = ["Drift"]
