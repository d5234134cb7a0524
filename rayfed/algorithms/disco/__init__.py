"""DiSCO: the method, and its preconditioner."""

from rayfed.algorithms.disco.disco import DiSCO
from rayfed.algorithms.disco.preconditioner import Preconditioner

__all__ = ["DiSCO", "Preconditioner"]
