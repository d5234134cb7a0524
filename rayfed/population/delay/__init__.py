"""Delays: how many virtual seconds one local step takes, one distribution per file."""

from rayfed.population.delay.base import Delay, DelayOfMean
from rayfed.population.delay.bimodal import Bimodal
from rayfed.population.delay.constant import Constant
from rayfed.population.delay.exponential import Exponential
from rayfed.population.delay.gamma import Gamma
from rayfed.population.delay.lognormal import Lognormal
from rayfed.population.delay.pareto import Pareto
from rayfed.population.delay.shifted import ShiftedExponential
from rayfed.population.delay.trace import Trace
from rayfed.population.delay.uniform import Uniform
from rayfed.population.delay.weibull import Weibull

__all__ = [
    "Bimodal",
    "Constant",
    "Delay",
    "DelayOfMean",
    "Exponential",
    "Gamma",
    "Lognormal",
    "Pareto",
    "ShiftedExponential",
    "Trace",
    "Uniform",
    "Weibull",
]
