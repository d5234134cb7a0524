"""Robust rules: what the server makes of vectors in place of their mean."""

from rayfed.channel.aggregators.base import Aggregator

__all__ = ["Aggregator"]
