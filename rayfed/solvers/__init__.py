"""Local solvers: what a client does between download and upload, one file each."""

from rayfed.solvers.base import Local, Solver, block, override
from rayfed.solvers.budget import LENGTHS
from rayfed.solvers.descent import Descent
from rayfed.solvers.sgd import SGD

__all__ = ["LENGTHS", "SGD", "Descent", "Local", "Solver", "block", "override"]
