"""Selections of cohorts, by the names of their classes."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import exported

if TYPE_CHECKING:  # for editors: `make exports` writes it
    from rayfed.selection.base import Selection as Selection
    from rayfed.selection.oort import Oort as Oort
    from rayfed.selection.power_of_choice import AdaptivePowerOfD as AdaptivePowerOfD
    from rayfed.selection.power_of_choice import CommunicationEfficient as CommunicationEfficient
    from rayfed.selection.power_of_choice import ComputationEfficient as ComputationEfficient
    from rayfed.selection.power_of_choice import PowerOfD as PowerOfD
    from rayfed.selection.simple import All as All
    from rayfed.selection.simple import Poisson as Poisson
    from rayfed.selection.simple import Uniform as Uniform
    from rayfed.selection.simple import Weighted as Weighted
    from rayfed.selection.walk import Walking as Walking
else:
    __getattr__, __dir__ = exported("selections")
