"""Local solvers: what a client does between download and upload."""

from rayfed.clients.solvers.base import AfterStep, Local, Solver, StepOracle, block, override
from rayfed.clients.solvers.descent import Descent
from rayfed.clients.solvers.sgd import SGD
from rayfed.clients.step_counts import STEP_SETTINGS

__all__ = [
    "SGD",
    "STEP_SETTINGS",
    "AfterStep",
    "Descent",
    "Local",
    "Solver",
    "StepOracle",
    "block",
    "override",
]
