"""Partitions: how the rows of a table are assigned to clients.

The classes are in `rayfed.partitions`; here are the base, and what a scenario without one has.
"""

from rayfed.datasets.partitions.base import Partition
from rayfed.datasets.partitions.blocks import IID

__all__ = ["IID", "Partition"]
