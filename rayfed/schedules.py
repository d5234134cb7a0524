"""Schedules of learning rates, by the names of their classes."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import exported

if TYPE_CHECKING:  # for editors: `make exports` writes it
    from rayfed.clients.schedules import Constant as Constant
    from rayfed.clients.schedules import Cosine as Cosine
    from rayfed.clients.schedules import Decay as Decay
    from rayfed.clients.schedules import Schedule as Schedule
    from rayfed.clients.schedules import Step as Step
else:
    __getattr__, __dir__ = exported("schedules")
