"""Local solvers: what a client does between download and upload, one file each."""

from rayfed.clients.solvers.base import AfterStep, Local, Solver, StepOracle, block, override
from rayfed.clients.solvers.budget import LENGTHS
from rayfed.clients.solvers.descent import Descent
from rayfed.clients.solvers.sgd import SGD

__all__ = [
    "LENGTHS",
    "SGD",
    "AfterStep",
    "Descent",
    "Local",
    "Solver",
    "StepOracle",
    "block",
    "override",
]
