"""Delays: how many virtual seconds one local step takes, one distribution per file."""

from rayfed.population.delay.base import Delay
from rayfed.population.delay.constant import Constant
from rayfed.population.delay.exponential import Exponential
from rayfed.population.delay.lognormal import Lognormal
from rayfed.population.delay.uniform import Uniform

__all__ = ["Constant", "Delay", "Exponential", "Lognormal", "Uniform"]
