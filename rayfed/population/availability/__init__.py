"""Availability: which clients can be reached.

The models are in `rayfed.availability`; here are the base, and what a scenario without one has.
"""

from rayfed.population.availability.base import Always, Availability, Need, PopulationInfo, Times

__all__ = ["Always", "Availability", "Need", "PopulationInfo", "Times"]
