"""Problems: the objectives that clients minimise."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import lazy

if TYPE_CHECKING:  # for editors and type checkers; a test compares the list
    from rayfed.problems.base import Problem as Problem
    from rayfed.problems.circle import Circle as Circle
    from rayfed.problems.flower.problem import Flower as Flower
    from rayfed.problems.least_squares import LeastSquares as LeastSquares
    from rayfed.problems.logistic_regression import LogisticRegression as LogisticRegression
    from rayfed.problems.mlp import MLP as MLP
    from rayfed.problems.network.network import Network as Network
    from rayfed.problems.own_code.problem import OwnCode as OwnCode
    from rayfed.problems.quadratic import Quadratic as Quadratic
    from rayfed.problems.softmax import SoftmaxRegression as SoftmaxRegression
else:
    __getattr__, __dir__ = lazy(__name__)
