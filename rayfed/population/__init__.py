"""How clients behave: how fast each computes, how fast it is connected, when it is there."""

from rayfed.population.population import Group, Network, Population, Stragglers

__all__ = ["Group", "Network", "Population", "Stragglers"]
