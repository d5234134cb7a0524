"""RWSADMM: the method, its other formulations, and what its theory says of a run."""

from rayfed.algorithms.rwsadmm.rwsadmm import RWSADMM

__all__ = ["RWSADMM"]
