"""Availability: which clients can be reached, one file each."""

from rayfed.availability.base import Always, Availability, Crowd
from rayfed.availability.bernoulli import Bernoulli
from rayfed.availability.cyclic import Cyclic
from rayfed.availability.diurnal import Diurnal, Zone

__all__ = ["Always", "Availability", "Bernoulli", "Crowd", "Cyclic", "Diurnal", "Zone"]
