"""Availability of clients, by the names of their classes."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import exported

if TYPE_CHECKING:  # for editors: `make exports` writes it
    from rayfed.population.availability.base import Always as Always
    from rayfed.population.availability.base import Availability as Availability
    from rayfed.population.availability.bernoulli import Bernoulli as Bernoulli
    from rayfed.population.availability.cyclic import Cyclic as Cyclic
    from rayfed.population.availability.diurnal import Diurnal as Diurnal
    from rayfed.population.availability.markov import Markov as Markov
    from rayfed.population.availability.markov import Outages as Outages
    from rayfed.population.availability.trace import Trace as Trace
else:
    __getattr__, __dir__ = exported("availability")
