"""Topologies, by the names of their classes."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import exported

if TYPE_CHECKING:  # for editors: `make exports` writes it
    from rayfed.topology.base import Topology as Topology
    from rayfed.topology.geometric import Geometric as Geometric
    from rayfed.topology.rounds import Complete as Complete
    from rayfed.topology.rounds import Grid as Grid
    from rayfed.topology.rounds import Random as Random
    from rayfed.topology.rounds import Ring as Ring
    from rayfed.topology.rounds import SmallWorld as SmallWorld
    from rayfed.topology.rounds import Star as Star
    from rayfed.topology.rounds import Targets as Targets
    from rayfed.topology.trace import Trace as Trace
else:
    __getattr__, __dir__ = exported("topologies")
