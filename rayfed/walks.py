"""Walks of a server, by the names of their classes."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import exported

if TYPE_CHECKING:  # for editors: `make exports` writes it
    from rayfed.topology.walks.base import Metropolis as Metropolis
    from rayfed.topology.walks.base import Uniform as Uniform
    from rayfed.topology.walks.base import Walk as Walk
    from rayfed.topology.walks.own import Matrix as Matrix
else:
    __getattr__, __dir__ = exported("walks")
