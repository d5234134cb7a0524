"""Delays of clients, by the names of their classes."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import exported

if TYPE_CHECKING:  # for editors: `make exports` writes it
    from rayfed.population.delay.base import Delay as Delay
    from rayfed.population.delay.bimodal import Bimodal as Bimodal
    from rayfed.population.delay.constant import Constant as Constant
    from rayfed.population.delay.exponential import Exponential as Exponential
    from rayfed.population.delay.gamma import Gamma as Gamma
    from rayfed.population.delay.lognormal import Lognormal as Lognormal
    from rayfed.population.delay.pareto import Pareto as Pareto
    from rayfed.population.delay.shifted import ShiftedExponential as ShiftedExponential
    from rayfed.population.delay.trace import Trace as Trace
    from rayfed.population.delay.uniform import Uniform as Uniform
    from rayfed.population.delay.weibull import Weibull as Weibull
else:
    __getattr__, __dir__ = exported("delays")
