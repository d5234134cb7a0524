"""Mobilities of clients, by the names of their classes."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import exported

if TYPE_CHECKING:  # for editors: `make exports` writes it
    from rayfed.topology.mobility import GaussMarkov as GaussMarkov
    from rayfed.topology.mobility import Mobility as Mobility
    from rayfed.topology.mobility import Still as Still
    from rayfed.topology.mobility import Waypoint as Waypoint
else:
    __getattr__, __dir__ = exported("mobilities")
