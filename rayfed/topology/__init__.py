"""Topologies: the links between clients over rounds and virtual time, and walks on them."""

from rayfed.topology.base import Graphs, Topology
from rayfed.topology.graph import EdgeList, Graph, Near

__all__ = ["EdgeList", "Graph", "Graphs", "Near", "Topology"]
