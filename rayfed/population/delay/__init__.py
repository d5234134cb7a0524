"""Delays: how many virtual seconds one local step takes.

The classes are in `rayfed.delays`; here are the bases, and what a scenario without a delay has.
"""

from rayfed.population.delay.base import Delay, DelayOfMean
from rayfed.population.delay.distributions import Constant

__all__ = ["Constant", "Delay", "DelayOfMean"]
