"""Mobilities of clients, by the names of their classes."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import exported

if TYPE_CHECKING:  # for editors: `make exports` writes it
    from rayfed.topology.mobility.base import Mobility as Mobility
    from rayfed.topology.mobility.gauss_markov import GaussMarkov as GaussMarkov
    from rayfed.topology.mobility.waypoint import Still as Still
    from rayfed.topology.mobility.waypoint import Waypoint as Waypoint
else:
    __getattr__, __dir__ = exported("mobilities")
