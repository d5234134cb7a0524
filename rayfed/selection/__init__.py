"""Selection of the cohort among the available clients."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import lazy
from rayfed.messages import State, Wait
from rayfed.selection.base import CONNECTED, POSITION, REPAIRED, Choice, SelectionView

__all__ = [
    "CONNECTED",
    "POSITION",
    "REPAIRED",
    "Choice",
    "SelectionView",
    "State",
    "Wait",
]

if TYPE_CHECKING:  # for editors and type checkers; a test compares the list
    from rayfed.selection.base import Selection as Selection
    from rayfed.selection.oort import Oort as Oort
    from rayfed.selection.power_of_choice import AdaptivePowerOfD as AdaptivePowerOfD
    from rayfed.selection.power_of_choice import CommunicationEfficient as CommunicationEfficient
    from rayfed.selection.power_of_choice import ComputationEfficient as ComputationEfficient
    from rayfed.selection.power_of_choice import PowerOfD as PowerOfD
    from rayfed.selection.simple import All as All
    from rayfed.selection.simple import Poisson as Poisson
    from rayfed.selection.simple import UniformSelection as UniformSelection
    from rayfed.selection.simple import Weighted as Weighted
    from rayfed.selection.walk import Walking as Walking
else:
    __getattr__, __dir__ = lazy(__name__)
