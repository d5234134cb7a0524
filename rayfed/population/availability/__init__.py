"""Availability: which clients can be reached; one model per file."""

from rayfed.population.availability.base import Always, Availability, PopulationInfo
from rayfed.population.availability.bernoulli import Bernoulli
from rayfed.population.availability.cyclic import Cyclic
from rayfed.population.availability.diurnal import Diurnal, Zone

__all__ = ["Always", "Availability", "Bernoulli", "Cyclic", "Diurnal", "PopulationInfo", "Zone"]
