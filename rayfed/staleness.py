"""Factors of stale replies, by the names of their classes."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import exported

if TYPE_CHECKING:  # for editors: `make exports` writes it
    from rayfed.algorithms.staleness import Constant as Constant
    from rayfed.algorithms.staleness import Hinge as Hinge
    from rayfed.algorithms.staleness import Polynomial as Polynomial
    from rayfed.algorithms.staleness import Staleness as Staleness
else:
    __getattr__, __dir__ = exported("staleness")
