"""Mobility: positions of the clients over virtual time."""

from rayfed.topology.mobility.base import Mobility, Tracks
from rayfed.topology.mobility.waypoint import Still, Waypoint

__all__ = ["Mobility", "Still", "Tracks", "Waypoint"]
