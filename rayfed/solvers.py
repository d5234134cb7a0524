"""Local solvers, by the names of their classes."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import exported

if TYPE_CHECKING:  # for editors: `make exports` writes it
    from rayfed.clients.solvers.adaptive import Adagrad as Adagrad
    from rayfed.clients.solvers.adaptive import Adam as Adam
    from rayfed.clients.solvers.base import Solver as Solver
    from rayfed.clients.solvers.sgd import SGD as SGD
else:
    __getattr__, __dir__ = exported("solvers")
