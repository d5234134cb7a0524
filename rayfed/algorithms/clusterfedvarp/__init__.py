"""ClusterFedVARP: the method, and the ways to form clusters."""

from rayfed.algorithms.clusterfedvarp.clusterfedvarp import ClusterFedVARP
from rayfed.algorithms.clusterfedvarp.members import By

__all__ = ["By", "ClusterFedVARP"]
