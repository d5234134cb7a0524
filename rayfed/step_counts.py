"""Numbers of local steps, by the names of their classes."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import exported

if TYPE_CHECKING:  # for editors: `make exports` writes it
    from rayfed.clients.step_counts import AdaComm as AdaComm
    from rayfed.clients.step_counts import SharedCoin as SharedCoin
    from rayfed.clients.step_counts import StepCount as StepCount
    from rayfed.clients.step_counts import UniformSteps as UniformSteps
else:
    __getattr__, __dir__ = exported("step_counts")
