"""Topologies: the links between clients over rounds and virtual time, and walks on them."""

from rayfed.topology.base import Graphs, Topology
from rayfed.topology.graph import Graph, Listed, Near

__all__ = ["Graph", "Graphs", "Listed", "Near", "Topology"]
