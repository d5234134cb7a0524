"""Topologies: who is linked with whom, at any round and virtual second; and walks on them."""

from rayfed.topology.base import Graphs, Topology
from rayfed.topology.graph import Graph, Listed, Near

__all__ = ["Graph", "Graphs", "Listed", "Near", "Topology"]
