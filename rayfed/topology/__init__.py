"""Graphs of clients over rounds and virtual time, mobility, and walks on them."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import lazy
from rayfed.topology.base import Graphs
from rayfed.topology.graph import Directed, EdgeList, Graph, Near
from rayfed.topology.walks.metropolis import Walker

__all__ = [
    "Directed",
    "EdgeList",
    "Graph",
    "Graphs",
    "Near",
    "Walker",
]

if TYPE_CHECKING:  # for editors and type checkers; a test compares the list
    from rayfed.topology.base import Topology as Topology
    from rayfed.topology.directed import Exponential as Exponential
    from rayfed.topology.directed import OnePeer as OnePeer
    from rayfed.topology.directed import OutDegree as OutDegree
    from rayfed.topology.geometric import Geometric as Geometric
    from rayfed.topology.mobility import GaussMarkov as GaussMarkov
    from rayfed.topology.mobility import Mobility as Mobility
    from rayfed.topology.mobility import MobilityTrace as MobilityTrace
    from rayfed.topology.mobility import Still as Still
    from rayfed.topology.mobility import Waypoint as Waypoint
    from rayfed.topology.shapes import Complete as Complete
    from rayfed.topology.shapes import Grid as Grid
    from rayfed.topology.shapes import Random as Random
    from rayfed.topology.shapes import Regular as Regular
    from rayfed.topology.shapes import Ring as Ring
    from rayfed.topology.shapes import SmallWorld as SmallWorld
    from rayfed.topology.shapes import Star as Star
    from rayfed.topology.shapes import Targets as Targets
    from rayfed.topology.trace import TopologyTrace as TopologyTrace
    from rayfed.topology.walks.metropolis import Metropolis as Metropolis
    from rayfed.topology.walks.metropolis import UniformWalk as UniformWalk
    from rayfed.topology.walks.metropolis import Walk as Walk
    from rayfed.topology.walks.own import Matrix as Matrix
else:
    __getattr__, __dir__ = lazy(__name__)
