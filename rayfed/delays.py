"""Delays of clients, by the names of their classes."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import exported

if TYPE_CHECKING:  # for editors: `make exports` writes it
    from rayfed.population.delay.base import Delay as Delay
    from rayfed.population.delay.distributions import Bimodal as Bimodal
    from rayfed.population.delay.distributions import Constant as Constant
    from rayfed.population.delay.distributions import Exponential as Exponential
    from rayfed.population.delay.distributions import Gamma as Gamma
    from rayfed.population.delay.distributions import Lognormal as Lognormal
    from rayfed.population.delay.distributions import Pareto as Pareto
    from rayfed.population.delay.distributions import ShiftedExponential as ShiftedExponential
    from rayfed.population.delay.distributions import Uniform as Uniform
    from rayfed.population.delay.distributions import Weibull as Weibull
    from rayfed.population.delay.trace import Trace as Trace
else:
    __getattr__, __dir__ = exported("delays")
