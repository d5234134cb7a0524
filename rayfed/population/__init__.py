"""Client populations: delays, availability, crashes and network connections."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import lazy
from rayfed.population.availability.base import Need, PopulationInfo, Times
from rayfed.population.crash import Crash
from rayfed.population.delay.base import DelayOfMean
from rayfed.population.energy import Battery, Energy
from rayfed.population.population import Connection, Group, Population, Stragglers
from rayfed.population.server import Server

__all__ = [
    "Battery",
    "Connection",
    "Crash",
    "DelayOfMean",
    "Energy",
    "Group",
    "Need",
    "Population",
    "PopulationInfo",
    "Server",
    "Stragglers",
    "Times",
]

if TYPE_CHECKING:  # for editors and type checkers; a test compares the list
    from rayfed.population.availability.base import Always as Always
    from rayfed.population.availability.base import Availability as Availability
    from rayfed.population.availability.bernoulli import Bernoulli as Bernoulli
    from rayfed.population.availability.cyclic import Cyclic as Cyclic
    from rayfed.population.availability.diurnal import Diurnal as Diurnal
    from rayfed.population.availability.markov import Markov as Markov
    from rayfed.population.availability.markov import Outages as Outages
    from rayfed.population.availability.trace import AvailabilityTrace as AvailabilityTrace
    from rayfed.population.delay.base import Delay as Delay
    from rayfed.population.delay.distributions import Bimodal as Bimodal
    from rayfed.population.delay.distributions import ConstantDelay as ConstantDelay
    from rayfed.population.delay.distributions import Exponential as Exponential
    from rayfed.population.delay.distributions import Gamma as Gamma
    from rayfed.population.delay.distributions import Lognormal as Lognormal
    from rayfed.population.delay.distributions import Pareto as Pareto
    from rayfed.population.delay.distributions import ShiftedExponential as ShiftedExponential
    from rayfed.population.delay.distributions import UniformDelay as UniformDelay
    from rayfed.population.delay.distributions import Weibull as Weibull
    from rayfed.population.delay.measured import MeasuredDelay as MeasuredDelay
    from rayfed.population.delay.trace import DelayTrace as DelayTrace
else:
    __getattr__, __dir__ = lazy(__name__)
