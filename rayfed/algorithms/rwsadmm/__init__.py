"""RWSADMM: the method, its other formulations, and its theory."""

from rayfed.algorithms.rwsadmm.rwsadmm import RWSADMM

__all__ = ["RWSADMM"]
