"""Mobility: where the clients are at any virtual second."""

from rayfed.topology.mobility.base import Mobility, Tracks
from rayfed.topology.mobility.waypoint import Still, Waypoint

__all__ = ["Mobility", "Still", "Tracks", "Waypoint"]
