"""Local solvers, learning rate schedules, step counts and minibatch sampling."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import lazy
from rayfed.solvers.base import AfterStep, Local, StepOracle, block, override
from rayfed.solvers.descent import Descent
from rayfed.solvers.step_counts import STEP_SETTINGS

__all__ = [
    "STEP_SETTINGS",
    "AfterStep",
    "Descent",
    "Local",
    "StepOracle",
    "block",
    "override",
]

if TYPE_CHECKING:  # for editors and type checkers; a test compares the list
    from rayfed.solvers.adaptive import Adagrad as Adagrad
    from rayfed.solvers.adaptive import Adam as Adam
    from rayfed.solvers.base import Solver as Solver
    from rayfed.solvers.own_train import OwnTrain as OwnTrain
    from rayfed.solvers.schedules import ConstantRate as ConstantRate
    from rayfed.solvers.schedules import Cosine as Cosine
    from rayfed.solvers.schedules import Decay as Decay
    from rayfed.solvers.schedules import Exponential as Exponential
    from rayfed.solvers.schedules import Schedule as Schedule
    from rayfed.solvers.schedules import Step as Step
    from rayfed.solvers.sgd import SGD as SGD
    from rayfed.solvers.step_counts import AdaComm as AdaComm
    from rayfed.solvers.step_counts import SharedCoin as SharedCoin
    from rayfed.solvers.step_counts import StepCount as StepCount
    from rayfed.solvers.step_counts import UniformSteps as UniformSteps
else:
    __getattr__, __dir__ = lazy(__name__)
