"""Drifts of the clients' rows, by the names of their classes."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import exported

if TYPE_CHECKING:  # for editors: `make exports` writes it
    from rayfed.datasets.drift import Arriving as Arriving
    from rayfed.datasets.drift import Drift as Drift
    from rayfed.datasets.drift import ImagesTurn as ImagesTurn
    from rayfed.datasets.drift import LabelsSwap as LabelsSwap
    from rayfed.datasets.drift import Rotation as Rotation
else:
    __getattr__, __dir__ = exported("drifts")
