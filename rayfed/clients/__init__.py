"""Clients: what a client function sees, the host, stacks of rows, local solvers."""

from rayfed.clients.clients import Clients
from rayfed.clients.stacks import Stacks

__all__ = ["Clients", "Stacks"]
