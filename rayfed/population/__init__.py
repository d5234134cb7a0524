"""Client behaviour: computing speed, network speed and availability."""

from rayfed.population.crash import Crash
from rayfed.population.population import Connection, Group, Population, Stragglers
from rayfed.population.server import Server

__all__ = ["Connection", "Crash", "Group", "Population", "Server", "Stragglers"]
